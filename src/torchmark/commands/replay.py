"""`torchmark replay`: the operator calls of a captured model, run again and measured."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
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
from torchmark.engine.cores import Division
from torchmark.engine.machine import free_memory
from torchmark.engine.replaying import BUDGET, HotReplay, ReplayZygotes, element_types, limits_for
from torchmark.engine.replaying_in_order import OrderReplay
from torchmark.engine.under_test import describe_environment
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric
from torchmark.model.run import TIME_LIMIT, Effort, Progress, Run, RunKind
from torchmark.model.run_settings import Backend, ReplayMode, settings_of


def replay(
    trace: str | os.PathLike[str] | None = None,
    *,
    pattern: str = "",
    mode: ReplayMode | str = ReplayMode.HOT,
    backends: Sequence[Backend | str] = (Backend.EAGER,),
    metrics: Sequence[Metric | str] = (Metric.TIME,),
    budget: float = BUDGET,
    threads: int = 1,
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

    `pattern` has words of the calls that are meant. In mode "hot" each distinct call is measured by
    itself, in mode "order" all calls of a step in their order. `backends` are some of "eager",
    "compile" and "ort", `metrics` some of "time" and "instructions". `budget` is in seconds of
    measured blocks for each call; `top` is how many calls the report shows as text. `imports` names
    modules that define operators of the trace: every process imports them first. Every result
    is in the store the moment it is final. `resume` names a run that was cut short: it goes on
    with the options it began with, and without its trace.
    """
    with use_store(store) as kept:
        if resume is not None:
            run = find_run(kept, resume, RunKind.REPLAY)
            with ReplayZygotes(settings_of(run).threads, run.imports) as zygotes:
                run.check_same_environments((describe_environment(zygotes.facts()),))
                return carry_out_on_cores(run, kept, partial(_measure, zygotes), progress)
        if trace is None:
            raise InvalidArgumentError("name a trace to replay, or a run to resume")
        settings, plan = plan_replay(
            load_trace(trace),
            os.fspath(trace),
            pattern=pattern,
            mode=check_member("mode", mode, ReplayMode),
            backends=_members("backend", backends, Backend),
            metrics=_members("metric", metrics, Metric),
            threads=check_count("threads", threads),
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


def _members(what: str, values: Sequence[Member | str], kind: type[Member]) -> tuple[Member, ...]:
    return tuple(dict.fromkeys(check_member(what, value, kind) for value in values))


def _measure(
    zygotes: ReplayZygotes, run: Run, division: Division
) -> Generator[Progress | Run, None, None]:
    """What the run lacks; first of all what the machine can do, which times are held against."""
    settings = settings_of(run)
    cores = division.cores_for(settings.threads)
    if run.speeds is None and any(each.metric is Metric.TIME for each in run.missing()):
        yield from add_speeds(run, zygotes.of(Backend.EAGER), element_types(settings), cores)
    effort = msgspec.structs.replace(effort_of(run), memory=free_memory())
    kind = OrderReplay if settings.mode is ReplayMode.ORDER else HotReplay
    yield from kind(run, effort, zygotes, cores).results()
