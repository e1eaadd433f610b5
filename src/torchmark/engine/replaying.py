"""Measures each distinct call of a trace alone, in a fork of a warm process.

Each backend has a zygote, and one more zygote counts; they start when needed. Iterating yields each
result as soon as it is final. A call that raises, crashes, hangs or needs too much memory only
fails itself; its result has the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from torchmark.analyse.call_costs import bytes_moved, computed_type
from torchmark.analyse.estimates import time_of
from torchmark.analyse.replay import recorded_call_of
from torchmark.engine.files import discard, make_private_directory
from torchmark.engine.machine import SPEED_MODULES
from torchmark.engine.measuring import count_case, time_case
from torchmark.engine.under_test import SETUP_MODULES
from torchmark.engine.zygote.cases import PythonCase
from torchmark.engine.zygote.pool import ZygotePool
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.model.case import Case
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import TIME_LIMIT, Began, Effort, Progress, Run
from torchmark.model.run_settings import Backend, ReplaySettings, TracedCall, settings_of
from torchmark_probe.loops.intervals import FEWEST_SAMPLES, median_interval
from torchmark_probe.loops.sampling import Limits

BUDGET = 0.2
"""Seconds of measured blocks per call. A model has a few hundred distinct calls."""

PRECISION = 0.02
"""The relative precision of the median that is enough to find where the time goes."""

_SHORTEST = 0.03
"""The minimum measuring time of a call in seconds, if the budget allows it."""

_LARGE_SHARE = 0.03
LONGER = 5
"""Calls with at least this share of the time whose interval is too wide are measured again, for
this many times as long."""

_SEVERAL = FEWEST_SAMPLES + 2
_LONGEST_AGAIN = 60.0
"""If even that is too short for an interval, a call is measured for this many runs, but at most
for this many seconds."""

_COUNTED = ((2e-4, 100), (2e-3, 10))
"""Calls shorter than each limit are counted with this number of runs, longer ones with one run:
under callgrind a call takes about fifty times as long."""


_PROBE = (
    *SETUP_MODULES,
    "torch.utils.flop_counter",
    "torchmark_probe.replay.cases",
    "torchmark_probe.replay.optimizers",
    *SPEED_MODULES,
)
_MODULES = {
    Backend.EAGER: _PROBE,
    Backend.COMPILE: (*_PROBE, "torch._inductor.compile_fx", "torch._inductor.codegen.cpp"),
    Backend.ORT: (
        *_PROBE,
        "onnxruntime",
        "onnxscript",
        "torch.onnx._internal.exporter._core",
    ),
}
"""What the zygote of each backend imports, so that its children do not have to: importing
torch.compile and the ONNX exporter takes seconds."""


class ReplayZygotes(ZygotePool):
    """The zygotes of a replay; leaving the `with` block ends every process."""

    def __init__(self, threads: int, imports: tuple[str, ...] = ()) -> None:
        """`imports` are modules of the user that every process imports."""
        super().__init__()
        self._launch = Launch(threads=threads, imports=imports)
        self._kernels = make_private_directory()

    def close(self) -> None:
        try:
            super().close()
        finally:
            discard(self._kernels)

    def facts(self) -> dict[str, Any]:
        """Return the facts that the environment reports; raise if torch cannot be used there."""
        return self.of(Backend.EAGER).start()

    def of(self, backend: Backend) -> Zygote:
        # Compiled kernels are removed with the replay, and calls compile one after another.
        variables = {
            "TORCHINDUCTOR_CACHE_DIR": str(self._kernels),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }
        compiles = backend is Backend.COMPILE
        launch = replace(
            self._launch,
            modules=_MODULES[backend],
            environment=tuple(variables.items()) if compiles else (),
        )
        return self.zygote(launch)

    def counting(self) -> Zygote:
        return self.zygote(replace(self._launch, under_callgrind=True, modules=_PROBE))


def limits_for(budget: float) -> Limits:
    """Say when the sampling of a call stops."""
    return Limits(PRECISION, min(_SHORTEST, budget), budget)


class HotReplay:
    """Measures the missing results of a run, each call alone."""

    def __init__(
        self, run: Run, effort: Effort, zygotes: ReplayZygotes, cores: Collection[int]
    ) -> None:
        self._missing = run.missing()
        self._effort = effort
        self._zygotes = zygotes
        self._cores = cores
        self._backends = settings_of(run).backends
        self._calls = calls_by_case(settings_of(run))
        self._seconds: dict[str, float] = {}
        """Seconds of one call, by the id of its case, for the calls that were timed."""

        for result in run.results:
            self._learn(result)

    def results(self) -> Iterator[Progress]:
        for backend in self._backends:
            yield from self._time_all(backend)
        yield from self._count_all()

    def _time_all(self, backend: Backend) -> Iterator[Progress]:
        """Time all calls; hold back results that may have to be measured again."""
        mine = {call.cases[backend] for call in self._calls.values()}
        undecided = Undecided(
            sum(
                seconds * self._calls[case_id].count
                for case_id, seconds in self._seconds.items()
                if case_id in mine
            )
        )
        try:
            for planned in self._missing:
                if planned.metric is Metric.TIME and planned.case.id in mine:
                    yield Began(case=planned.case, metric=Metric.TIME)
                    result = self._time(planned.case, backend, self._effort)
                    yield from undecided.add(result, self._calls[planned.case.id].count)
        except KeyboardInterrupt:
            yield from undecided.left()
            raise
        for result in undecided.left():
            again = self._time(result.case, backend, self._longer(result))
            yield again if again.status is Status.DONE else result

    def _longer(self, result: Result) -> Effort:
        """Return the effort for measuring a call again."""
        time = time_of(result)
        several = min(_SEVERAL * time.median, _LONGEST_AGAIN) if time is not None else 0.0
        limits = limits_for(max(LONGER * self._effort.limits.max_run_time, several))
        return msgspec.structs.replace(self._effort, limits=limits)

    def _time(self, case: Case, backend: Backend, effort: Effort) -> Result:
        zygote = self._zygotes.of(backend)
        result = time_case(case, runnable(case), zygote, effort, self._cores)
        self._learn(result)
        return with_bytes(result, self._calls[case.id])

    def _count_all(self) -> Iterator[Progress]:
        for planned in self._missing:
            case = planned.case
            if planned.metric is not Metric.INSTRUCTIONS:
                continue
            effort = msgspec.structs.replace(
                self._effort,
                runs=runs_to_count(self._seconds.get(case.id)),
                timeout=max(TIME_LIMIT, self._effort.timeout),
            )
            yield Began(case=case, metric=Metric.INSTRUCTIONS)
            result = count_case(case, runnable(case), self._zygotes.counting(), effort)
            yield with_bytes(result, self._calls[case.id])

    def _learn(self, result: Result) -> None:
        time = time_of(result)
        if time is not None and result.case.id in self._calls:
            self._seconds[result.case.id] = time.median


class Undecided:
    """Holds times that are not final: their interval is wide, and their share may be large.

    The total time only grows, so a share that is small now stays small. At most about thirty
    results are held, which are lost if the process is killed.
    """

    def __init__(self, whole: float) -> None:
        """`whole` is the time of all calls that have a final result."""
        self._whole = whole
        self._held: dict[str, tuple[Result, float]] = {}

    def add(self, result: Result, count: int) -> Iterator[Result]:
        """Yield the results that are final now: this one, or earlier ones."""
        time = time_of(result)
        if time is None:
            yield result
            return
        weight = time.median * count
        self._whole += weight
        # Use the interval of the samples alone. The interval of the time also contains the
        # variation between results, which measuring longer would not reduce.
        measurement, within = result.measurement, time.interval
        if within is not None and measurement is not None:
            within = median_interval(measurement.times)
        if within is None or within.high - max(0.0, within.low) > 2 * PRECISION * time.median:
            self._held[result.case.id] = (result, weight)
        else:
            yield result
        for case_id, (held, its_weight) in list(self._held.items()):
            if its_weight < _LARGE_SHARE * self._whole:
                del self._held[case_id]
                yield held

    def left(self) -> list[Result]:
        """Return the results whose share turned out to be large."""
        return [result for result, _ in self._held.values()]


def calls_by_case(settings: ReplaySettings) -> dict[str, TracedCall]:
    """Return each call by the id of every case that measures it."""
    return {case_id: call for call in settings.calls for case_id in call.cases.values()}


def element_types(settings: ReplaySettings) -> set[str]:
    """Return the floating-point dtypes that the calls compute with."""
    found = {computed_type(recorded_call_of(call)) for call in settings.calls}
    return {each for each in found if "float" in each}


def runnable(case: Case) -> PythonCase:
    """Return the case as a zygote runs it: the setup has the record and makes the inputs."""
    return PythonCase(stmt=case.stmt, setup=case.setup)


def with_bytes(result: Result, call: TracedCall) -> Result:
    """Add the bytes moved that follow from the call's record."""
    moved = bytes_moved(recorded_call_of(call))
    if moved is None:  # its first run may report them instead
        return result
    facts = msgspec.structs.replace(result.facts, bytes=moved)
    return msgspec.structs.replace(result, facts=facts)


def runs_to_count(seconds: float | None) -> int:
    """
    >>> runs_to_count(1e-6), runs_to_count(1e-3), runs_to_count(0.1), runs_to_count(None)
    (100, 10, 1, 10)
    """
    if seconds is None:
        return 10
    return next((number for limit, number in _COUNTED if seconds < limit), 1)
