"""`torchmark replay`: run the operator calls of a captured model again, and measure them."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Sequence
from functools import partial

import msgspec

from torchmark.arguments import Member, check_count, check_member, check_modules, check_positive
from torchmark.capture.traces.loading import load_trace
from torchmark.commands.spine import (
    Listener,
    Place,
    add_speeds,
    begin_run,
    carry_out_on_cores,
    effort_of,
    find_run,
    use_store,
)
from torchmark.define.recorded import plan_replay
from torchmark.engine.alternatives import measure_alternatives
from torchmark.engine.cores import Division, usable_cores
from torchmark.engine.machine import free_memory
from torchmark.engine.replaying import BUDGET, HotReplay, ReplayZygotes, element_types, limits_for
from torchmark.engine.replaying_in_order import OrderReplay
from torchmark.engine.under_test import describe_environment
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric, Result
from torchmark.model.run import TIME_LIMIT, Effort, Progress, Run, RunKind, Stage
from torchmark.model.run_settings import Backend, ReplayMode, settings_of
from torchmark.model.trace import Trace


def replay(
    trace: str | os.PathLike[str] | None = None,
    *,
    pattern: str = "",
    mode: ReplayMode | str | None = None,
    backends: Sequence[Backend | str] = (Backend.EAGER,),
    metrics: Sequence[Metric | str] = (Metric.TIME,),
    budget: float = BUDGET,
    threads: int | None = None,
    seed: int = 0,
    timeout: float = TIME_LIMIT,
    top: int = 20,
    imports: Sequence[str] = (),
    store: Place = None,
    tags: Iterable[str] = (),
    resume: str | None = None,
    progress: Listener | None = None,
) -> Run:
    """Run the operator calls of a trace again, and return the run with their times and counts.

    `pattern` selects calls by words, like `-k`. In mode "hot", each distinct call is repeated
    alone. In mode "order", all calls of a step run in their order. The default is "order" where it
    is possible. `backends` are some of "eager", "compile" and "ort", and `metrics` some of "time"
    and "instructions". Each call is timed for at most `budget` seconds. A call that takes more than
    `timeout` seconds fails. `threads` is the number of threads (default: that of the captured
    program). `seed` is the seed of the random inputs. `top` is the number of calls that the text
    report shows. `imports` names modules that define operators of the trace; every process imports
    them first.

    Every result is in the store as soon as it is final. `resume` names a run that was interrupted:
    the missing results are measured with its options, and the trace is not needed.
    """
    with use_store(store) as kept:
        if resume is not None:
            run = find_run(kept, resume, RunKind.REPLAY)
            with ReplayZygotes(settings_of(run).threads, run.imports) as zygotes:
                run.check_same_environments((describe_environment(zygotes.facts()),))
                return carry_out_on_cores(run, kept, partial(_measure, zygotes), progress)
        if trace is None:
            raise InvalidArgumentError("name a trace to replay, or a run to resume")
        loaded = load_trace(trace)
        threads = _threads_of(loaded) if threads is None else check_count("threads", threads)
        settings, plan = plan_replay(
            loaded,
            os.fspath(trace),
            pattern=pattern,
            mode=None if mode is None else check_member("mode", mode, ReplayMode),
            backends=_members("backend", backends, Backend),
            metrics=_members("metric", metrics, Metric),
            threads=threads,
            seed=seed,
        )
        settings = msgspec.structs.replace(settings, top=check_count("top", top))
        effort = Effort(
            limits=limits_for(check_positive("budget", budget)),
            timeout=check_positive("timeout", timeout),
            seed=seed,
        )
        modules = check_modules(imports)
        with ReplayZygotes(threads, modules) as zygotes:
            run = begin_run(
                kept,
                RunKind.REPLAY,
                plan,
                environments=[describe_environment(zygotes.facts())],
                settings={"replay": settings, "imports": modules or None},
                effort=effort,
                tags=tags,
            )
            return carry_out_on_cores(run, kept, partial(_measure, zygotes), progress)


def _threads_of(trace: Trace) -> int:
    """As many as the model ran with, but not more than the cores here; 1 if it is not known."""
    plain = trace.plain_steps
    return 1 if plain is None else min(plain.threads, len(usable_cores()))


def _members(what: str, values: Sequence[Member | str], kind: type[Member]) -> tuple[Member, ...]:
    return tuple(dict.fromkeys(check_member(what, value, kind) for value in values))


def _measure(
    zygotes: ReplayZygotes, run: Run, division: Division
) -> Generator[Progress | Run, None, None]:
    """Measure the missing results, after the speed of the machine that times are compared with."""
    settings = settings_of(run)
    cores = division.cores_for(settings.threads)
    if run.speeds is None and any(each.metric is Metric.TIME for each in run.missing()):
        run = yield from add_speeds(run, zygotes.of(Backend.EAGER), element_types(settings), cores)
    effort = msgspec.structs.replace(effort_of(run), memory=free_memory())
    kind = OrderReplay if settings.mode is ReplayMode.ORDER else HotReplay
    results = {result.key: result for result in run.results}
    for news in kind(run, effort, zygotes, cores).results():
        if isinstance(news, Result):
            results[news.key] = news
        yield news
    takes_times = any(each.metric is Metric.TIME for each in run.plan)
    if takes_times and settings.backends[0] is Backend.EAGER and not run.alternatives:
        run = msgspec.structs.replace(run, results=tuple(results.values()))
        yield from _add_alternatives(run, zygotes.of(Backend.EAGER), effort, cores)


def _add_alternatives(
    run: Run, zygote: Zygote, effort: Effort, cores: Collection[int]
) -> Generator[Progress | Run, None, None]:
    """The run with the measured alternatives to calls that take much of the time."""
    text = "measuring alternatives"
    yield Stage(text=text)
    found = tuple(measure_alternatives(run, zygote, effort, cores))
    if found:
        yield msgspec.structs.replace(run, alternatives=found)
    yield Stage(text=text, is_over=True)
