"""One case, timed or counted in a zygote, becomes its result; a failure is a result too."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from torchmark.engine.counting import count_in
from torchmark.engine.files import discard, make_private_directory
from torchmark.engine.zygote.cases import PythonCase
from torchmark.errors import CaseFailedError, StatementSyntaxError, TorchmarkError, ZygoteError
from torchmark.model.case import Runtime, spec_of
from torchmark.model.result import Facts, Metric, Result, Status, Timing, counts_of_stats, utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from torchmark.engine.zygote.cases import NativeCase, Output, Sample
    from torchmark.engine.zygote.zygote import Zygote
    from torchmark.model.case import Case
    from torchmark.model.run import Effort


def time_case(
    case: Case,
    ready: PythonCase | NativeCase,
    zygote: Zygote,
    effort: Effort,
    cores: Collection[int],
) -> Result:
    """The case's times on these cores, one fresh process for each repeat."""
    is_compiled = case.runtime is Runtime.COMPILED

    def sample(repeat: int) -> Sample:
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
        samples = [sample(repeat) for repeat in range(effort.repeats)]
        return Result(
            case=case,
            metric=Metric.TIME,
            status=Status.DONE,
            finished=utc_now(),
            payload=Timing(processes=tuple(each.sampling for each in samples)),
            stdout=samples[0].output.stdout,
            stderr=samples[0].output.stderr,
            facts=(
                Facts(prepare_seconds=samples[0].first_run)
                if is_compiled
                else facts_of(samples[0].output)
            ),
        )

    return _or_failure(case, Metric.TIME, work)


@contextmanager
def _own_compile_cache(ready: PythonCase | NativeCase) -> Iterator[PythonCase | NativeCase]:
    """The case with an empty cache of torch.compile's: the first run then compiles every time."""
    if not isinstance(ready, PythonCase):
        yield ready
        return
    folder = make_private_directory()
    try:
        setting = f"import os; os.environ['TORCHINDUCTOR_CACHE_DIR'] = {str(folder)!r}"
        yield replace(ready, global_setup=f"{setting}\n{ready.global_setup}")
    finally:
        discard(folder)


def count_case(
    case: Case, ready: PythonCase | NativeCase, zygote: Zygote, effort: Effort
) -> Result:
    """The case's instructions; several repeats must agree, and where they do not it is said."""

    def work() -> Result:
        counts = [
            count_in(
                zygote,
                ready,
                number=effort.runs,
                time_limit=effort.timeout,
                memory_limit=effort.memory,
            )
            for _ in range(effort.repeats)
        ]
        stats = [each.stats(spec_of(case)) for each in counts]
        totals = sorted(each.counts() for each in stats)
        differ = f"counts of {effort.runs} runs lie between {totals[0]} and {totals[-1]}"
        return Result(
            case=case,
            metric=Metric.INSTRUCTIONS,
            status=Status.DONE,
            finished=utc_now(),
            reason=differ if totals[0] != totals[-1] else "",
            payload=counts_of_stats(stats[0]),
            facts=facts_of(counts[0].output),
            stdout=counts[0].output.stdout,
            stderr=counts[0].output.stderr,
        )

    return _or_failure(case, Metric.INSTRUCTIONS, work)


def facts_of(output: Output) -> Facts:
    """What the code of a case reported of itself."""
    return msgspec.convert(output.facts, Facts)


def failed_result(case: Case, metric: Metric, error: TorchmarkError) -> Result:
    """The row of a case that did not work; one that cannot be done here at all is skipped."""
    is_unsupported = isinstance(error, CaseFailedError) and error.kind == "unsupported"
    return Result(
        case=case,
        metric=metric,
        status=Status.SKIPPED if is_unsupported else Status.FAILED,
        finished=utc_now(),
        reason=_syntax_reason(error) if isinstance(error, StatementSyntaxError) else str(error),
        stdout=error.stdout if isinstance(error, CaseFailedError) else "",
        stderr=error.stderr if isinstance(error, CaseFailedError) else "",
    )


def _syntax_reason(error: StatementSyntaxError) -> str:
    """With the line at fault, since nobody sees the case beside its row."""
    line = (error.text or "").strip()
    return f"{error.msg} (line {error.lineno or 1})" + (f"\n    {line}" if line else "")


def skipped_result(case: Case, metric: Metric, reason: str) -> Result:
    """The row of a case that is left out."""
    return Result(
        case=case, metric=metric, status=Status.SKIPPED, finished=utc_now(), reason=reason
    )


def _or_failure(case: Case, metric: Metric, work: Callable[[], Result]) -> Result:
    start = time.monotonic()
    try:
        try:
            result = work()
        except ZygoteError:  # it was not this case that took the zygote down, or it does it again
            result = work()
    except TorchmarkError as error:
        result = failed_result(case, metric, error)
    return msgspec.structs.replace(result, seconds=time.monotonic() - start)
