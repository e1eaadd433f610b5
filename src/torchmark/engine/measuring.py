"""Times or counts one case in a zygote and returns its result; a failure is a result too."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import msgspec

from torchmark.analyse.call_costs import bytes_moved
from torchmark.capture.traces.checking import check_call
from torchmark.engine.counting import count_in
from torchmark.engine.files import private_directory
from torchmark.engine.pace import remember_pace
from torchmark.engine.zygote.cases import Output, PythonCase, Ready, Sample
from torchmark.engine.zygote.conversation import outcome_of
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import CaseFailedError, StatementSyntaxError, TorchmarkError, ZygoteError
from torchmark.model.case import Case, Runtime, spec_of
from torchmark.model.result import (
    Facts,
    Metric,
    PlannedResult,
    Result,
    Status,
    Timing,
    counts_of_stats,
)
from torchmark.model.run import Effort
from torchmark_probe.zygote import messages


def time_case(
    case: Case, ready: Ready, zygote: Zygote, effort: Effort, cores: Collection[int]
) -> Result:
    """Time the case on these cores, in one fresh process for each repeat."""
    planned = PlannedResult(case=case, metric=Metric.TIME)
    is_compiled = case.runtime is Runtime.COMPILED

    def sample(repeat: int) -> Sample:
        with _own_compile_cache(ready, is_compiled=is_compiled) as what:
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
        first = samples[0]
        return planned.finish(
            payload=Timing(processes=tuple(each.sampling for each in samples)),
            facts=Facts(prepare_seconds=first.first_run) if is_compiled else facts_of(first.output),
            stdout=first.output.stdout,
            stderr=first.output.stderr,
        )

    return _or_failure(planned, work)


def time_together(
    cases: Sequence[Case], ready: Sequence[Ready], zygote: Zygote, effort: Effort
) -> list[Result]:
    """Time all cases in the same rounds, in one process.

    If a case fails, the others start again without it.
    """
    results: dict[int, Result] = {}
    while left := [number for number in range(len(cases)) if number not in results]:
        ending = zygote.sample_together(
            [ready[number] for number in left], limits=effort.limits, time_limit=effort.timeout
        )
        try:
            samplings = outcome_of(ending, messages.SampledTogether).samplings
        except CaseFailedError as error:
            culprit = left[ending.turn]
            results[culprit] = failed_result(cases[culprit], Metric.TIME, error)
            continue
        remember_pace(samplings[0].quiet_pace)
        for number, sampling, output in zip(left, samplings, ending.outputs, strict=True):
            results[number] = PlannedResult(case=cases[number], metric=Metric.TIME).finish(
                payload=Timing(processes=(sampling,)), stdout=output.stdout, stderr=output.stderr
            )
    return [results[number] for number in range(len(cases))]


@contextmanager
def _own_compile_cache(ready: Ready, *, is_compiled: bool) -> Iterator[Ready]:
    """Yield the case. Compiled code gets an empty cache, so that the first run always compiles."""
    if not is_compiled or not isinstance(ready, PythonCase):
        yield ready
        return
    with private_directory() as folder:
        setting = f"import os; os.environ['TORCHINDUCTOR_CACHE_DIR'] = {str(folder)!r}"
        yield replace(ready, global_setup=f"{setting}\n{ready.global_setup}")


def count_case(case: Case, ready: Ready, zygote: Zygote, effort: Effort) -> Result:
    """Count the case's instructions; a reason says if repeats did not agree."""
    planned = PlannedResult(case=case, metric=Metric.INSTRUCTIONS)

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
        return planned.finish(
            reason=differ if totals[0] != totals[-1] else "",
            payload=counts_of_stats(stats[0]),
            facts=facts_of(counts[0].output),
            stdout=counts[0].output.stdout,
            stderr=counts[0].output.stderr,
        )

    return _or_failure(planned, work)


def facts_of(output: Output) -> Facts:
    """Return the facts that the code of a case reported.

    A recorded call without recorded outputs reports its record completed with them. The bytes moved
    are computed from it.
    """
    reported = dict(output.facts)
    completed = reported.pop("completed", None)
    if completed is not None:
        reported["bytes"] = bytes_moved(check_call(completed))
    return msgspec.convert(reported, Facts)


def failed_result(case: Case, metric: Metric, error: TorchmarkError) -> Result:
    """Return a failed result, or a skipped one if the case cannot run in this environment."""
    planned = PlannedResult(case=case, metric=metric)
    printed = {}
    if isinstance(error, CaseFailedError):
        printed = {"stdout": error.stdout, "stderr": error.stderr}
    if error.lacking:
        return planned.finish(Status.SKIPPED, reason=error.lacking, **printed)
    reason = str(error)
    if isinstance(error, StatementSyntaxError):  # the row does not show the source
        line = (error.text or "").strip()
        reason = f"{error.msg} (line {error.lineno or 1})" + (f"\n    {line}" if line else "")
    return planned.finish(Status.FAILED, reason=reason, **printed)


def _or_failure(planned: PlannedResult, work: Callable[[], Result]) -> Result:
    start = time.monotonic()
    try:
        try:
            result = work()
        except ZygoteError:  # if this case is what ended the zygote, the second attempt fails too
            result = work()
    except TorchmarkError as error:
        result = failed_result(planned.case, planned.metric, error)
    return msgspec.structs.replace(result, seconds=time.monotonic() - start)
