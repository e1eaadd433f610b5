"""The cases of a sweep, measured: in processes of their own, or in this one.

A worker process takes one case after the other; it is forked from a zygote, so torch is imported
once. One that crashes or hangs costs the case that it was at, and another goes on with the rest.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from torchmark.define.sweep.points import SweepCase
from torchmark.engine.cores import on_cores, usable_cores
from torchmark.engine.pace import process_metronome
from torchmark.engine.private_directories import discard, private_directory
from torchmark.engine.reservation import reserved
from torchmark.engine.threads import set_torch_threads
from torchmark.engine.workers import Workers
from torchmark.engine.zygote.cases import TIME_LIMIT
from torchmark.engine.zygote.sweep_worker import SWEEP_MODULES, start_sweep
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import CaseFailedError
from torchmark.model.units import ordered_unique

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from torchmark.define.sweep.spec import SweepSpec

Told = Generator[tuple[SweepCase, dict[str, Any]], None, None]
"""Each case with what was found out of it, one after the other."""


def sweep_workers() -> Workers:
    """Zygotes that can sweep; whatever happens, they must be closed."""
    return Workers(partial(Zygote, modules=SWEEP_MODULES))


def in_workers(
    spec: SweepSpec,
    cases: Sequence[SweepCase],
    workers: Workers,
    *,
    kernels: bool = False,
    known: Collection[str] = (),
    time_limit: float = TIME_LIMIT,
) -> Told:
    """Measured in worker processes; the model is made there by the spec's file.

    Of cases whose ids are `known` nothing but the kernels is told; `time_limit` is the seconds that
    one case may take.
    """
    for threads, group in _by_threads(cases):
        zygote = workers.started(threads, under_callgrind=False)
        with reserved(usable_cores(), threads) as division, _private_folder() as folder:
            lane = division.lanes[0] if threads <= division.lane_width else division.everything
            with on_cores(division.others):
                order = _order(spec, group, folder, kernels=kernels, known=known)
                yield from _through(zygote, order, group, lane, time_limit)


def in_this_process(
    spec: SweepSpec,
    cases: Sequence[SweepCase],
    *,
    kernels: bool = False,
    known: Collection[str] = (),
) -> Told:
    """Measured here, as `Timer` does: the model may be anything, and a crash is the caller's."""
    from torchmark_probe.sweep.worker import Sweeper  # noqa: PLC0415 - it imports torch

    for threads, group in _by_threads(cases):
        with _private_folder() as folder, _compile_cache(folder), set_torch_threads(threads):
            order = _order(spec, group, folder, kernels=kernels, known=known)
            sweeper = Sweeper(spec.model, order, process_metronome())
            for case, described in zip(group, order["cases"], strict=True):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of compilers and exporters, not the user's
                    told = sweeper.measured(described)
                yield case, told


def _through(
    zygote: Zygote,
    order: dict[str, Any],
    cases: Sequence[SweepCase],
    cores: Collection[int],
    time_limit: float,
) -> Told:
    left = deque(zip(cases, order["cases"], strict=True))
    while left:
        order = {**order, "cases": [described for _, described in left]}
        worker = start_sweep(zygote, order, cores=cores, time_limit=time_limit)
        with contextlib.closing(worker):
            is_there = True
            while left and is_there:
                try:
                    told = worker.next_result()["result"]
                except CaseFailedError as error:
                    told = {"status": "failed", "reason": str(error)}
                    is_there = False
                yield left.popleft()[0], told


def _by_threads(cases: Sequence[SweepCase]) -> list[tuple[int, list[SweepCase]]]:
    numbers = ordered_unique(case.row.threads for case in cases)
    return [(number, [case for case in cases if case.row.threads == number]) for number in numbers]


def _order(
    spec: SweepSpec,
    cases: Sequence[SweepCase],
    folder: Path,
    *,
    kernels: bool,
    known: Collection[str] = (),
) -> dict[str, Any]:
    """What `torchmark_probe.sweep.worker` is told."""
    return {
        "file": str(spec.file.resolve()) if spec.file is not None else None,
        "init": list(dict.fromkeys(spec.init)),
        "inputs": [
            {"dims": list(each.dims), "dtype": each.dtype, "below": each.below}
            for each in spec.inputs
        ],
        "threads": cases[0].row.threads,
        "folder": str(folder),
        "kernels": kernels,
        "cases": [
            {
                "id": case.row.case_id,
                "dims": dict(case.dims),
                "dtype": case.row.dtype,
                "backend": case.row.backend,
                "phase": case.row.phase.value,
                "timed": case.row.case_id not in known,
            }
            for case in cases
        ],
    }


@contextmanager
def _private_folder() -> Iterator[Path]:
    """For what compilers write; nothing of an earlier sweep is there, nothing stays."""
    folder = private_directory()
    try:
        yield folder
    finally:
        discard(folder)


@contextmanager
def _compile_cache(folder: Path) -> Iterator[None]:
    """torch.compile keeps its results there, so that it compiles anew."""
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
