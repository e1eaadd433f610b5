"""`torchmark sweep`: measure a model over input scales and job configs, in this environment.

The run in the store holds the results, and the CSV file is written from it. The path of the file
identifies the run: the same sweep into the same file continues the run, even if the file is gone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torchmark.analyse.sweep import SweepRow, rows_of
from torchmark.arguments import check_count, check_positive
from torchmark.commands.spine import (
    Listener,
    LiveFile,
    Place,
    add_speeds,
    carry_out,
    carry_out_on_cores,
    effort_of,
    find_run,
    use_store,
)
from torchmark.commands.sweep_runs import find_or_begin, write_files
from torchmark.define.sweep.axes import sizes_of
from torchmark.define.sweep.points import (
    SweepCase,
    all_cases,
    configs_with_phases,
    duration_text,
    number_of_combinations,
    number_of_points,
    seconds_for,
    with_valid_points,
)
from torchmark.define.sweep.spec import SweepSpec, spec_of
from torchmark.engine.cores import Division
from torchmark.engine.machine import import_torch
from torchmark.engine.sweeping import (
    WantedCase,
    make_sweep_workers,
    measure_here,
    measure_in_workers,
)
from torchmark.engine.under_test import Workers, describe_environment
from torchmark.engine.user_files import read_sweep
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric
from torchmark.model.run import Environment, Progress, Run, RunKind, Stage
from torchmark.model.run_settings import TORCH_DTYPES, Phase, point_of
from torchmark.report.figures import number_text
from torchmark.store import Store
from torchmark_probe.zygote import warmup

_LONG = 600.0
"""Seconds after which a sweep is long, so a message says how to make it shorter."""


def sweep(
    spec: str | os.PathLike[str] | None = None,
    *,
    model: Any = None,
    model_init_params: Any = (),
    input_params: Any = (),
    input_scales: Any = None,
    job_configs: Any = ("pt fp32",),
    valid: Any = None,
    where: str = "",
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as the option is called
    sample: int | None = None,
    phases: Sequence[str | Phase] = (Phase.FORWARD,),
    kernels: bool = False,
    timeout: float | None = None,
    csv: str | os.PathLike[str] | None = None,
    store: Place = None,
    tags: Iterable[str] = (),
    resume: str | None = None,
    progress: Listener | None = None,
) -> Run:
    """Measure a model over input scales and job configs, and return the run with its results.

    `spec` is a Python file that defines the five names, and its cases are measured in processes of
    their own. Without it, the five names are arguments, the model may be any callable, and cases
    are measured in this process, as by `Timer`. `valid` selects the valid points: a function of
    dimensions, or an expression as text. A file defines `valid` as one more name. `set` gives
    dimensions other sizes. A case in its own process fails after `timeout` seconds (default: 300).

    With `csv`, each row is in that file as soon as it is measured. A call with the same file
    continues the run that wrote it: it keeps what was measured, and tries what failed or was
    skipped again. `resume` names a run that was interrupted. If that run was started from Python,
    pass the five names again.
    """
    tell = progress or (lambda _news: None)
    named = {
        "model": model,
        "model_init_params": model_init_params,
        "input_params": input_params,
        "input_scales": input_scales,
        "job_configs": job_configs,
        "valid": valid,
    }
    if resume is not None:
        with use_store(store) as kept:
            run = find_run(kept, resume, RunKind.SWEEP)
            read = _spec_of_run(run, named)
            with _workers_for(read) as workers:
                here = _environment(workers, run.plan[0].case.num_threads)
                run.check_same_environments((here,))
                return _carry_out(run, read, workers, kept, tell)
    sizes = {name: sizes_of(name, given) for name, given in (set or {}).items()}
    if spec is None:
        read = with_valid_points(spec_of(**named).with_sizes(sizes))
    elif valid is None:
        read = read_sweep(Path(spec), sizes=sizes)
    else:
        raise InvalidArgumentError(f"define valid in {os.fspath(spec)}, next to input_scales")
    if timeout is not None and read.file is None:
        raise InvalidArgumentError(
            "timeout needs a SPEC.py: a sweep from Python runs in this process, and nothing can "
            "stop it"
        )
    limit = None if timeout is None else check_positive("timeout", timeout)
    drawn = None if sample is None else check_count("sample", sample)
    ran = tuple(map(Phase, phases))
    cases = all_cases(read, where=where, sample=drawn, phases=ran)
    file = None if csv is None else Path(csv)
    for text in _announcements(read, cases, ran, file):
        tell(Stage(text=text))
    with use_store(store) as kept, _workers_for(read) as workers:
        here = _environment(workers, cases[0].point.threads)
        options = {"where": where, "sample": sample, "phases": [phase.value for phase in ran]}
        run = find_or_begin(
            kept, read, cases, here, file,
            kernels=kernels, timeout=limit, options=options, tags=tuple(tags),
        )  # fmt: skip
        if len(run.missing()) < len(run.plan):
            tell(Stage(text=_known_text(run, cases)))
        return _carry_out(run, read, workers, kept, tell)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep:
    """A model over input scales and job configs, measured in this process.

    >>> import torch
    >>> sweep = Sweep(
    ...     model=torch.nn.Linear,
    ...     model_init_params=["in_features", "out_features"],
    ...     input_params=[["batch", "in_features"]],
    ...     input_scales={"batch": [1, 8], "in_features": [16], "out_features": [4]},
    ...     job_configs=["pt fp32"],
    ... )
    >>> [(row.dims[0], row.flops) for row in sweep.run()]
    [(('batch', 1), 128), (('batch', 8), 1024)]
    """

    model: Any
    input_params: Any
    input_scales: Any
    model_init_params: Any = ()
    job_configs: Any = ("pt fp32",)
    valid: Any = None

    def __post_init__(self) -> None:
        spec_of(**vars(self))  # raises for a mistake now, not in run()

    def run(
        self,
        *,
        where: str = "",
        sample: int | None = None,
        phases: Sequence[str | Phase] = (Phase.FORWARD,),
        csv: str | os.PathLike[str] | None = None,
        kernels: bool = False,
        store: Place = None,
    ) -> list[SweepRow]:
        """Measure as `torchmark.sweep` does, and return a row for each case.

        A case that fails is a row with its reason. The rows are in the store as a run.
        """
        run = sweep(
            **vars(self),
            where=where,
            sample=sample,
            phases=phases,
            csv=csv,
            kernels=kernels,
            store=store,
        )
        ran = tuple(map(Phase, phases))
        spec = with_valid_points(spec_of(**vars(self)))
        cases = all_cases(spec, where=where, sample=sample, phases=ran)
        rows = {row.case_id: row for row in rows_of(run)}
        return [rows[case.id] for case, _ in cases]


def _spec_of_run(run: Run, named: Mapping[str, Any]) -> SweepSpec:
    """The spec of a run that is resumed; raises if the code of its model has changed."""
    file = run.settings.get("spec")
    if file is None and named["model"] is None:
        raise InvalidArgumentError(
            f"run {run.id} was started from Python, so its model is not stored; call "
            f"torchmark.sweep(model=…, resume={run.id!r}) with the same five names"
        )
    read = spec_of(**named) if file is None else read_sweep(Path(file))
    if read.model_source != run.plan[0].case.setup:
        raise InvalidArgumentError(
            f"the code of {read.model_name} has changed since run {run.id} started; start a new run"
        )
    return read


@contextlib.contextmanager
def _workers_for(spec: SweepSpec) -> Iterator[Workers | None]:
    """Zygotes for a model that is defined in a file; None for a model of this process."""
    if spec.file is None:
        yield None
        return
    with contextlib.closing(make_sweep_workers()) as workers:
        yield workers


def _environment(workers: Workers | None, threads: int) -> Environment:
    if workers is not None:
        facts = workers.start(threads, under_callgrind=False).start()
    else:
        facts = warmup.facts(import_torch())
    return describe_environment(facts)


def _announcements(
    spec: SweepSpec, cases: Sequence[SweepCase], phases: Sequence[Phase], file: Path | None
) -> Iterator[str]:
    """The size of the sweep, and about how long it takes."""
    seconds = seconds_for(spec, cases)
    configs = len(configs_with_phases(spec, phases))
    into = f", into {file}" if file is not None else ""
    points, all_points = number_of_points(spec), number_of_combinations(spec)
    valid = f" ({all_points - points:,} others are not valid)" if points < all_points else ""
    yield (
        f"{spec.model_name}: {number_text(len(cases), 'case')} of {number_text(points, 'point')}"
        f"{valid} with {number_text(configs, 'config')} each, about {duration_text(seconds)} for a "
        f"small model{into}"
    )
    if seconds > _LONG:
        yield (
            "To measure less, use --sample N (a random subset of N points), --where or --set. To "
            "continue after Ctrl-C, run the same command again."
        )


def _known_text(run: Run, cases: Sequence[SweepCase]) -> str:
    missing = {each.case.id for each in run.missing() if each.metric is Metric.TIME}
    there = sum(case.id not in missing for case, _ in cases)
    without_kernels = len({each.case.id for each in run.missing()} - missing)
    added = f"; kernels are measured for {without_kernels} of them" if without_kernels else ""
    return (
        f"{there} of {len(cases)} rows are in the store already{added}; to measure them again, "
        f"use another --csv or remove the run: torchmark rm {run.id}"
    )


def _carry_out(
    run: Run, spec: SweepSpec, workers: Workers | None, store: Store, tell: Listener
) -> Run:
    """Measure the missing results. However it ends, the files have all results so far."""
    named = run.settings.get("csv")
    file = None if named is None else Path(named)
    with LiveFile(file, "csv", tell) as live:
        if workers is None:
            wanted = _wanted_cases(run)
            done = carry_out(run, store, lambda _run: measure_here(spec, wanted), live.hear)
        else:
            done = carry_out_on_cores(run, store, partial(_measure, spec, workers), live.hear)
    if file is not None:
        write_files(done, file)
    return done


def _measure(
    spec: SweepSpec, workers: Workers, run: Run, division: Division
) -> Generator[Progress | Run, None, None]:
    limit = effort_of(run).timeout
    wanted = _wanted_cases(run)
    yield from measure_in_workers(spec, wanted, workers, division, time_limit=limit)
    if run.speeds is None:
        threads = max(each.case.num_threads for each in run.plan)
        zygote = workers.start(threads, under_callgrind=False)
        yield from add_speeds(run, zygote, _torch_dtypes(run), division.cores_for(threads))


def _wanted_cases(run: Run) -> list[WantedCase]:
    """The cases with missing results, in the order of the plan."""
    metrics: dict[str, set[Metric]] = {}
    for each in run.missing():
        metrics.setdefault(each.case.id, set()).add(each.metric)
    cases = {each.case.id: each.case for each in run.plan if each.case.id in metrics}
    return [
        WantedCase(case, point_of(case, run.settings), frozenset(metrics[case_id]))
        for case_id, case in cases.items()
    ]


def _torch_dtypes(run: Run) -> list[str]:
    dtypes = {point_of(each.case, run.settings).dtype for each in run.plan}
    return sorted(TORCH_DTYPES[dtype] for dtype in dtypes if dtype in TORCH_DTYPES)
