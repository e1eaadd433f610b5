"""Measures the cases of a sweep, in worker processes or in this process.

A worker process measures one case after another. It is forked from a zygote, so torch is imported
once. If a worker crashes or hangs, only its current case fails; a new worker continues.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchmark.engine.cores import Division
from torchmark.engine.files import private_directory
from torchmark.engine.machine import SPEED_MODULES, set_torch_threads
from torchmark.engine.pace import process_reference_loop
from torchmark.engine.under_test import Workers
from torchmark.engine.zygote.conversation import Conversation
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import CaseFailedError
from torchmark.model.case import Case
from torchmark.model.result import (
    Facts,
    KernelCalls,
    KernelTimes,
    Metric,
    PlannedResult,
    Result,
    Status,
    Timing,
)
from torchmark.model.run import Began
from torchmark.model.run_settings import SweepPoint
from torchmark.model.units import ordered_unique
from torchmark_probe.zygote import messages

if TYPE_CHECKING:
    from torchmark.define.sweep.spec import SweepSpec

News = Generator[Began | Result, None, None]

_MODULES = ("torchmark_probe.sweep.worker", *SPEED_MODULES, "torch.utils.flop_counter")
"""Modules that a zygote for sweeps imports at its start."""

_STATUSES = {"measured": Status.DONE, "skipped": Status.SKIPPED, "failed": Status.FAILED}
"""By the status that the probe reports."""


class WantedCase(NamedTuple):
    """A case of a sweep, and the metrics that are still missing."""

    case: Case
    point: SweepPoint
    metrics: frozenset[Metric]
    """TIME, PROFILE (the times of its kernels) or both."""


def make_sweep_workers() -> Workers:
    """Return zygotes that can run sweeps; the caller must close them."""
    return Workers(Launch(modules=_MODULES))


def measure_in_workers(
    spec: SweepSpec,
    wanted: Sequence[WantedCase],
    workers: Workers,
    division: Division,
    *,
    time_limit: float,
) -> News:
    """Measure in worker processes, each case within the limit. The spec's file makes the model."""
    for threads, group in _by_threads(wanted):
        zygote = workers.start(threads, under_callgrind=False)
        with private_directory() as folder:
            order = order_of(spec, group, folder)
            cores = division.cores_for(threads)
            yield from _measure_in_turn(zygote, order, group, cores, time_limit)


def measure_here(spec: SweepSpec, wanted: Sequence[WantedCase]) -> News:
    """Measure in this process, as `Timer` does; a crash ends it."""
    from torchmark_probe.sweep.worker import Sweeper  # noqa: PLC0415 - it imports torch

    for threads, group in _by_threads(wanted):
        with private_directory() as folder, _compile_cache(folder), set_torch_threads(threads):
            order = order_of(spec, group, folder)
            sweeper = Sweeper(spec.model, order, process_reference_loop())
            for each, described in zip(group, order.cases, strict=True):
                yield from _announce(each)
                start = time.monotonic()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # they come from compilers and exporters
                    swept = sweeper.measure(described)
                yield from results_of(each, swept, time.monotonic() - start)


def order_of(spec: SweepSpec, wanted: Sequence[WantedCase], folder: Path) -> messages.Sweep:
    """The request to a worker; all of its cases have the same number of threads."""
    return messages.Sweep(
        file=str(spec.file.resolve()) if spec.file is not None else None,
        init=list(dict.fromkeys(spec.init)),
        inputs=list(spec.inputs),
        threads=wanted[0].point.threads,
        folder=str(folder),
        kernels=any(Metric.PROFILE in each.metrics for each in wanted),
        cases=[
            messages.SweepCase(
                dims=dict(each.point.dims),
                dtype=each.point.dtype,
                backend=each.point.backend,
                phase=each.point.phase.value,
                timed=Metric.TIME in each.metrics,
            )
            for each in wanted
        ],
        quiet_pace=process_reference_loop().quiet_pace,
    )


def results_of(wanted: WantedCase, swept: messages.Swept, seconds: float) -> list[Result]:
    """The results of a case, one for each metric that was wanted."""
    status = _STATUSES[swept.status]
    timing = None if swept.sampling is None else Timing(processes=(swept.sampling,))
    payloads = {Metric.TIME: timing, Metric.PROFILE: _kernels(swept)}
    return [
        PlannedResult(case=wanted.case, metric=metric).finish(
            status,
            seconds=seconds,
            reason="" if status is Status.DONE else swept.reason,
            payload=payload,
            facts=_facts(swept) if metric is Metric.TIME else Facts(),
        )
        for metric, payload in payloads.items()
        if metric in wanted.metrics
    ]


def _kernels(swept: messages.Swept) -> KernelTimes | None:
    if swept.kernels is None:
        return None
    longest_first = sorted(swept.kernels, key=lambda each: -each.seconds)
    return KernelTimes(kernels=tuple(KernelCalls(**asdict(each)) for each in longest_first))


def _facts(swept: messages.Swept) -> Facts:
    error = swept.max_error
    is_remark = swept.status == "measured" and swept.reason
    return Facts(
        flops=swept.flops,
        bytes=swept.bytes,
        peak_memory_bytes=swept.peak_memory_bytes,
        # JSON has no infinity. A remark says that the results cannot be compared.
        max_error=error if error is not None and math.isfinite(error) else None,
        prepare_seconds=swept.prepare_seconds,
        remarks=(swept.reason,) if is_remark else (),
    )


def _measure_in_turn(
    zygote: Zygote,
    order: messages.Sweep,
    wanted: Sequence[WantedCase],
    cores: Collection[int],
    time_limit: float,
) -> News:
    left = deque(zip(wanted, order.cases, strict=True))
    while left:
        order = replace(order, cases=[described for _, described in left])
        with zygote.open(Conversation, order, cores=cores, time_limit=time_limit) as worker:
            worker.next_message(messages.FileRead, "the sweep ended before its first case")
            worker.begin_anew()  # the limit applies to each case
            is_there = True
            while left and is_there:
                each = left[0][0]
                yield from _announce(each)
                start = time.monotonic()
                try:
                    swept = worker.next_message(
                        messages.Swept, "the process ended before this case"
                    )
                    worker.begin_anew()
                except CaseFailedError as error:
                    swept = messages.Swept("failed", str(error))
                    is_there = False
                left.popleft()
                yield from results_of(each, swept, time.monotonic() - start)


def _announce(wanted: WantedCase) -> Iterator[Began]:
    for metric in Metric:
        if metric in wanted.metrics:
            yield Began(case=wanted.case, metric=metric)


def _by_threads(wanted: Sequence[WantedCase]) -> list[tuple[int, list[WantedCase]]]:
    numbers = ordered_unique(each.point.threads for each in wanted)
    return [
        (number, [each for each in wanted if each.point.threads == number]) for number in numbers
    ]


@contextmanager
def _compile_cache(folder: Path) -> Iterator[None]:
    """Point torch.compile's cache at this empty folder, so that it compiles again."""
    name = "TORCHINDUCTOR_CACHE_DIR"
    before = os.environ.get(name)
    os.environ[name] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
