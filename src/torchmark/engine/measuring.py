"""One case, timed or counted in a zygote, becomes its result; a failure is a result too."""

from __future__ import annotations

import datetime
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchmark.engine.counting import loop_profile, stats_of
from torchmark.engine.private_directories import discard, private_directory
from torchmark.engine.zygote.cases import TIME_LIMIT, PythonCase
from torchmark.errors import CaseFailedError, StatementSyntaxError, TorchmarkError, ZygoteError
from torchmark.model.case import Case, Runtime
from torchmark.model.measurement import Measurement
from torchmark.model.result import Metric, Result, Status
from torchmark.model.task_spec import TaskSpec
from torchmark_probe.loops.sampling import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from torchmark.engine.zygote.cases import NativeCase, Sample
    from torchmark.engine.zygote.zygote import Zygote


_LIMITS = Limits(precision=0.01, min_run_time=0.2, max_run_time=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is done for each case; it is kept with the run."""

    limits: Limits = _LIMITS
    """When sampling stops."""

    number: int = 100
    """Runs that are counted."""

    repeats: int = 1
    """Fresh processes in which each case is measured."""

    timeout: float = TIME_LIMIT
    """Seconds that a case may take in one process."""

    memory: int | None = None
    """Bytes that a case may take beyond what its zygote has; None for all that there are."""


def spec_of(case: Case) -> TaskSpec:
    """The case under the names that tables use."""
    return TaskSpec(
        stmt=case.stmt,
        setup=case.setup,
        global_setup=case.global_setup,
        label=" / ".join(case.label[:-1]) or None,
        sub_label=case.title.partition(" · ")[0].rpartition(" / ")[2],
        description=case.title.partition(" · ")[2],
        num_threads=case.num_threads,
    )


def timed(
    case: Case,
    ready: PythonCase | NativeCase,
    zygote: Zygote,
    effort: Effort,
    cores: Collection[int],
) -> Result:
    """The case's times on these cores, one fresh process for each repeat."""
    is_compiled = case.runtime is Runtime.COMPILED

    def sampled(repeat: int) -> Sample:
        with _own_compile_cache(ready) if is_compiled else nullcontext(ready) as what:
            return zygote.sample(
                what,
                limits=effort.limits,
                seed=repeat,
                cores=cores,
                time_limit=effort.timeout,
                memory_limit=effort.memory,
            )

    def work() -> Result:
        samples = [sampled(repeat) for repeat in range(effort.repeats)]
        measurements = [
            Measurement.from_sampling(spec_of(case), sample.sampling) for sample in samples
        ]
        whole = measurements[0] if len(measurements) == 1 else _merged(measurements)
        return Result(
            case=case,
            metric=Metric.TIME,
            status=Status.DONE,
            finished=now(),
            measurement=whole,
            stdout=samples[0].output.stdout,
            stderr=samples[0].output.stderr,
            compile_seconds=samples[0].first_run if is_compiled else None,
        )

    return _or_failure(case, Metric.TIME, work)


@contextmanager
def _own_compile_cache(ready: PythonCase | NativeCase) -> Iterator[PythonCase | NativeCase]:
    """The case with an empty cache of torch.compile's: the first run then compiles every time."""
    if not isinstance(ready, PythonCase):
        yield ready
        return
    folder = private_directory()
    try:
        setting = f"import os; os.environ['TORCHINDUCTOR_CACHE_DIR'] = {str(folder)!r}"
        yield replace(ready, global_setup=f"{setting}\n{ready.global_setup}")
    finally:
        discard(folder)


def counted(case: Case, ready: PythonCase | NativeCase, zygote: Zygote, effort: Effort) -> Result:
    """The case's instructions; several repeats must agree, and where they do not it is said."""

    def work() -> Result:
        counts = [
            zygote.count(
                ready,
                number=effort.number,
                time_limit=effort.timeout,
                memory_limit=effort.memory,
            )
            for _ in range(effort.repeats)
        ]
        is_python = isinstance(ready, PythonCase)
        baseline = loop_profile(zygote, effort.number) if is_python else None
        stats = [stats_of(spec_of(case), effort.number, each, baseline) for each in counts]
        totals = sorted(each.counts() for each in stats)
        differ = f"counts of {effort.number} runs lie between {totals[0]} and {totals[-1]}"
        return Result(
            case=case,
            metric=Metric.INSTRUCTIONS,
            status=Status.DONE,
            finished=now(),
            reason=differ if totals[0] != totals[-1] else "",
            counts=stats[0],
            stdout=counts[0].output.stdout,
            stderr=counts[0].output.stderr,
        )

    return _or_failure(case, Metric.INSTRUCTIONS, work)


def failed(case: Case, kind: Metric, error: TorchmarkError) -> Result:
    """The row of a case that did not work."""
    return Result(
        case=case,
        kind=kind,
        status=Status.FAILED,
        finished=now(),
        reason=_syntax_reason(error) if isinstance(error, StatementSyntaxError) else str(error),
        stdout=error.stdout if isinstance(error, CaseFailedError) else "",
        stderr=error.stderr if isinstance(error, CaseFailedError) else "",
    )


def _syntax_reason(error: StatementSyntaxError) -> str:
    """With the line at fault, since nobody sees the case beside its row."""
    line = (error.text or "").strip()
    return f"{error.msg} (line {error.lineno or 1})" + (f"\n    {line}" if line else "")


def skipped(case: Case, kind: Metric, reason: str) -> Result:
    """The row of a case that is left out."""
    return Result(case=case, kind=kind, status=Status.SKIPPED, finished=now(), reason=reason)


def now() -> str:
    """The time in UTC, as records have it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _or_failure(case: Case, kind: Metric, work: Callable[[], Result]) -> Result:
    start = time.monotonic()
    try:
        try:
            result = work()
        except ZygoteError:  # it was not this case that took the zygote down, or it does it again
            result = work()
    except TorchmarkError as error:
        result = failed(case, kind, error)
    return replace(result, seconds=time.monotonic() - start)


def _merged(measurements: list[Measurement]) -> Measurement:
    (merged,) = Measurement.merge(measurements)
    return merged
