"""Proposes alternatives to expensive calls of a step, and measures both sides.

Only alternatives that compute the same are proposed: contiguous inputs, float32 instead of fewer
bits, and torch's fused optimizers. Both sides are measured alone, one right after the other.
`analyse.hints` decides later whether an alternative is worth a hint in the report.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from torchmark.analyse.call_costs import tensors_in
from torchmark.analyse.estimates import time_of
from torchmark.analyse.hints import LEAST_SHARE
from torchmark.analyse.replay import CallRow, ReplayAnalysis, analyse_replay
from torchmark.define.recorded import hot_case
from torchmark.engine.measuring import time_case
from torchmark.engine.replaying import LONGER, limits_for, runnable
from torchmark.engine.zygote.zygote import Zygote
from torchmark.model.case import Case
from torchmark.model.result import TimeSummary
from torchmark.model.run import Alternative, Change, Effort, Run
from torchmark.model.run_settings import ReplaySettings, TracedCall

_CLONE = {
    "op": "aten.clone.default",
    "schema": None,
    "kwargs": {"memory_format": {"memory_format": "contiguous_format"}},
}
_LOW_PRECISION = ("float16", "bfloat16")

_UPDATES = {"Adam": "addcdiv_", "AdamW": "addcdiv_", "Adagrad": "addcdiv_", "SGD": "add_"}
"""The optimizers that torch has a fused version of, each with the operator that it runs once per
parameter."""

_OPTIMIZER_SETUP = """\
from torchmark_probe.replay.optimizers import optimizer_step
step = optimizer_step({text!r})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An alternative that has not been measured yet."""

    change: Change
    calls: tuple[int, ...]
    times: int
    present: Case
    changed: Case
    copies: tuple[Case, ...] = ()
    what: str = ""


def measure_alternatives(
    run: Run, zygote: Zygote, effort: Effort, cores: Collection[int]
) -> Iterator[Alternative]:
    """Measure the alternatives; skip those that fail, without failing the replay.

    There are few of them, and overlapping intervals give no hint. So each is measured as long as a
    call with a large share that is measured again.
    """
    limits = limits_for(LONGER * effort.limits.max_run_time)
    effort = msgspec.structs.replace(effort, limits=limits)
    for proposal in propose(analyse_replay(run)):
        cases = [proposal.present, proposal.changed, *proposal.copies]
        results = [time_case(case, runnable(case), zygote, effort, cores) for case in cases]
        times = [
            TimeSummary(
                samples=time.samples,
                median=time.median,
                low=max(0.0, time.interval.low),
                high=time.interval.high,
            )
            for result in results
            if (time := time_of(result)) is not None and time.interval is not None
        ]
        if len(times) < len(cases):
            continue
        present, changed, *copies = times
        yield Alternative(
            change=proposal.change,
            calls=proposal.calls,
            times=proposal.times,
            what=proposal.what,
            present=present,
            changed=changed,
            copying=_sum_of(copies) if copies else None,
        )


def propose(analysis: ReplayAnalysis) -> Iterator[Proposal]:
    """Yield alternatives for calls that take a noticeable share of a step."""
    settings = analysis.settings
    optimizers: dict[str, list[CallRow]] = {}
    for row in analysis.calls:
        if (row.share or 0.0) >= LEAST_SHARE:
            yield from _propose_for_call(row.call, settings)
        for function in {place.function for place in row.call.places}:
            optimizers.setdefault(function or "", []).append(row)
    for function, rows in optimizers.items():
        name = function.removeprefix("torch.optim.").removesuffix(".step")
        share = sum(row.share or 0.0 for row in rows)
        if name in _UPDATES and settings.is_whole and share >= LEAST_SHARE:
            yield from _propose_fused(name, [row.call for row in rows], settings)


def _propose_for_call(call: TracedCall, settings: ReplaySettings) -> Iterator[Proposal]:
    record = json.loads(call.record)
    for change, changed in ((Change.CONTIGUOUS, _contiguous), (Change.FLOAT32, _float32)):
        other = changed(record)
        if other is None:
            continue
        copies = _copies_of(record) if change is Change.CONTIGUOUS else ()
        cases = [
            hot_case((each["op"], change.value), json.dumps(each, separators=(",", ":")), settings)
            for each in (other, *copies)
        ]
        yield Proposal(
            change=change,
            calls=(call.number,),
            times=max(1, round(call.count / settings.steps)),
            present=hot_case((call.op, call.signature), call.record, settings),
            changed=cases[0],
            copies=tuple(cases[1:]),
        )


def _contiguous(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same call on contiguous tensors; None if they are already, or if tensors share memory."""
    other = _without_outputs(record)
    strided = [tensor for tensor in _inputs(other) if "strides" in tensor]
    if not strided or any("storage" in tensor for tensor in strided):
        return None
    for tensor in strided:
        for name in ("strides", "offset", "storage_bytes"):
            tensor.pop(name, None)
    return other


def _copies_of(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The calls that make these tensors contiguous."""
    for tensor in _inputs(record):
        if "strides" in tensor:
            yield {**_CLONE, "args": [{"tensor": tensor}]}


def _float32(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same call in float32; None if it uses other dtypes or converts between dtypes."""
    other = _without_outputs(record)
    floats = [tensor for tensor in _inputs(other) if "float" in tensor["dtype"]]
    is_low = bool(floats) and all(tensor["dtype"] in _LOW_PRECISION for tensor in floats)
    if not is_low or any(isinstance(each, dict) and "dtype" in each for each in _arguments(other)):
        return None
    for tensor in floats:
        tensor["dtype"] = "float32"
        if "storage_bytes" in tensor:
            tensor["storage_bytes"] *= 2
    return other


def _without_outputs(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the record that may be changed, without the outputs to compare with."""
    copy: dict[str, Any] = json.loads(json.dumps(record))
    copy.pop("outputs", None)
    return copy


def _arguments(record: Mapping[str, Any]) -> list[Any]:
    return [*record["args"], *record["kwargs"].values()]


def _inputs(record: Mapping[str, Any]) -> list[Any]:
    return [tensor for tensor in tensors_in(_arguments(record)) if "parts" not in tensor]


def _propose_fused(
    name: str, calls: Sequence[TracedCall], settings: ReplaySettings
) -> Iterator[Proposal]:
    """Propose the fused version of a whole optimizer step."""
    operators = {call.op for call in calls}
    parameters = _parameters(calls, _UPDATES[name], settings.steps)
    if not parameters or any("_fused_" in op for op in operators):
        return
    options = _options(name, operators)
    count = sum(times for _, _, times in parameters)
    yield Proposal(
        change=Change.FUSED,
        calls=tuple(call.number for call in calls),
        times=1,
        what=f"{name}.step on {count:,} parameters",
        present=_optimizer_case(name, parameters, options, settings),
        changed=_optimizer_case(name, parameters, {**options, "foreach": None, "fused": True},
                                settings),
    )  # fmt: skip


def _options(name: str, operators: Collection[str]) -> dict[str, Any]:
    """Infer the optimizer's options from its operators; learning rates make no difference."""
    names = {op.split(".")[1].removeprefix("_foreach_") for op in operators}
    found: dict[str, Any] = {"foreach": any("_foreach_" in op for op in operators)}
    if names & {"maximum", "maximum_"}:
        found["amsgrad"] = True
    if name == "SGD" and "mul_" in names:
        found["momentum"] = 0.9
    if name != "AdamW" and "add" in names:
        found["weight_decay"] = 0.01
    return found


def _parameters(
    calls: Sequence[TracedCall], update: str, steps: int
) -> list[tuple[Sequence[int], str, int]]:
    """Shape, dtype and number of the parameters; the update runs once per parameter and step."""
    found: Counter[tuple[tuple[int, ...], str]] = Counter()
    for call in calls:
        if call.op.split(".")[1].removeprefix("_foreach_") != update:
            continue
        for tensor in tensors_in(json.loads(call.record)["args"][0]):
            if tensor.get("parameter"):
                found[tuple(tensor["shape"]), tensor["dtype"]] += call.count
    return [(shape, dtype, round(n / steps)) for (shape, dtype), n in found.items() if n >= steps]


def _optimizer_case(
    name: str, parameters: Sequence[Any], options: Mapping[str, Any], settings: ReplaySettings
) -> Case:
    asked = {"optimizer": name, "parameters": parameters, "options": options}
    return Case(
        label=("optimizer", name),
        stmt="step()",
        setup=_OPTIMIZER_SETUP.format(text=json.dumps(asked)),
        num_threads=settings.threads,
    )


def _sum_of(times: Sequence[TimeSummary]) -> TimeSummary:
    """Add up the times of calls that run one after another."""
    return TimeSummary(
        samples=min(each.samples for each in times),
        median=sum(each.median for each in times),
        low=sum(each.low for each in times),
        high=sum(each.high for each in times),
    )
