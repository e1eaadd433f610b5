"""Turns the calls of a trace into cases: for a suite, or for the plan of a replay.

Each distinct call is a case, labelled by its operator and arguments. A case has the record of its
call as text in the setup, where the probe makes inputs like the recorded ones. So the id of a case
only depends on what it runs, and is equal for the same call in another trace. A call with recorded
values also names their file. In a suite, a call with something that no trace can store is a skipped
case with a reason. A replay has a case for each call and backend.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from torchmark.capture.traces.checking import sanitize
from torchmark.capture.traces.exact_values import has_exact_values
from torchmark.capture.traces.signatures import signature_of
from torchmark.define.expansion import Label
from torchmark.define.grouped import TimerArgs
from torchmark.define.selection import selected
from torchmark.define.skips import SkipCondition
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case
from torchmark.model.result import Metric, PlannedResult
from torchmark.model.run_settings import Backend, CallPlace, ReplayMode, ReplaySettings, TracedCall
from torchmark.model.trace import Place, RecordedCall, Step, Trace

_STMT = "op(*args, **kwargs)"
_SETUP = """\
from torchmark_probe.replay.calls import rebuild, settle
settle()
recorded = {text!r}
op, args, kwargs = rebuild(recorded, seed=0{values})
"""
_EAGER = """\
from torchmark_probe.replay.cases import eager
op, args, kwargs = eager({record!r}, {seed}{values})
"""
_BY_BACKEND = """\
from torchmark_probe.replay.cases import by_backend
run = by_backend({backend!r}, {record!r}, {seed}{values})
"""


def definitions_of(trace: Trace) -> dict[Label, TimerArgs]:
    """Return the definition for each distinct call, by label, in the order of the trace."""
    seen: Counter[Label] = Counter()
    found: dict[Label, TimerArgs] = {}
    for call in trace.calls:
        label = (call.op, signature_of(call) or "()")
        seen[label] += 1
        if seen[label] > 1:
            label = (label[0], f"{label[1]} #{seen[label]}")
        opaque = _first_opaque([*call.args, *call.kwargs.values()])
        reason = f"a trace cannot store its argument of type {opaque}"
        found[label] = TimerArgs(
            _STMT,
            setup=_SETUP.format(text=call_text(call), values=_values_argument(call, trace.values)),
            skip=None if opaque is None else SkipCondition(reason=reason),
        )
    return found


def _values_argument(call: RecordedCall, file: str) -> str:
    """The argument for the probe that names the file of values; empty without values."""
    return f", values={file!r}" if file and has_exact_values(call) else ""


def call_text(call: RecordedCall) -> str:
    return json.dumps(call.to_record(), separators=(",", ":"), allow_nan=False)


def _first_opaque(values: list[Any]) -> str | None:
    for value in values:
        inner: list[Any] = value if isinstance(value, list) else []
        if isinstance(value, dict):
            if "opaque" in value:
                return sanitize(str(value["opaque"]), 80)
            inner = [
                *value.get("tuple", []),
                *(part for pair in value.get("dict", ()) for part in pair),
            ]
        found = _first_opaque(inner)
        if found is not None:
            return found
    return None


def plan_replay(
    trace: Trace,
    name: str,
    *,
    pattern: str = "",
    mode: ReplayMode | None = None,
    backends: tuple[Backend, ...] = (Backend.EAGER,),
    metrics: tuple[Metric, ...] = (Metric.TIME,),
    threads: int = 1,
    seed: int = 0,
) -> tuple[ReplaySettings, list[PlannedResult]]:
    """Return the settings of a replay, and its planned results in order.

    `name` is the trace's file name, `pattern` has words that select calls. Without a mode, calls
    are replayed in order, unless the backends or metrics need each call alone.
    """
    needs_hot = "" if mode is not None else _why_not_in_order(trace, backends, metrics)
    if mode is None:
        mode = ReplayMode.HOT if needs_hot else ReplayMode.ORDER
    _check_together(mode, backends, metrics)
    step = _usual_step(trace, name) if mode is ReplayMode.ORDER else None
    asked = ReplaySettings(
        trace=name,
        mode=mode,
        mode_reason=needs_hot,
        backends=backends,
        steps=1 if step is not None else sum(each.repeats for each in trace.steps) or 1,
        threads=threads,
        seed=seed,
        values=trace.values,
        unseen=trace.unseen,
        calls=(),
        is_whole=not pattern,
        plain_steps=trace.plain_steps,
    )
    found = _select_calls(trace, asked, step, pattern)
    settings = msgspec.structs.replace(asked, calls=tuple(call for call, _ in found))
    planned = [
        PlannedResult(case=cases[backend], metric=metric)
        for metric in metrics
        for backend in (backends if metric is Metric.TIME else (Backend.EAGER,))
        for _, cases in found
    ]
    if step is None:
        return settings, planned
    ids = {call.number: call.cases[Backend.EAGER] for call in settings.calls}
    order = tuple(number for number in step.calls if number in ids)
    whole = _pass_case([ids[number] for number in order], settings)
    planned.append(PlannedResult(case=whole, metric=Metric.TIME))
    return msgspec.structs.replace(settings, order=order, pass_case=whole.id), planned


def _why_not_in_order(
    trace: Trace, backends: tuple[Backend, ...], metrics: tuple[Metric, ...]
) -> str:
    """Say why the calls cannot be replayed in order; empty if they can."""
    if not trace.steps:
        return "the trace has no order"
    if backends != (Backend.EAGER,):
        return "backends other than eager need this"
    return "counts need this" if Metric.INSTRUCTIONS in metrics else ""


def _check_together(
    mode: ReplayMode, backends: tuple[Backend, ...], metrics: tuple[Metric, ...]
) -> None:
    if not backends or not metrics:
        raise InvalidArgumentError("a replay needs at least one backend and one metric")
    counts = Metric.INSTRUCTIONS in metrics
    if mode is ReplayMode.ORDER and (backends != (Backend.EAGER,) or counts):
        raise InvalidArgumentError(
            "mode order measures only times, and only with eager, because it runs the calls of a "
            "step one after the other; use mode hot for counts and other backends"
        )
    if counts and Backend.EAGER not in backends:
        raise InvalidArgumentError(
            "only eager calls are counted, because compiling and exporting take minutes under "
            "callgrind; add eager to the backends"
        )


def _usual_step(trace: Trace, name: str) -> Step:
    """Return the step that was repeated most often, and of several the last, after the set-up.

    A step with less than half of the calls of another is ignored: it is the incomplete last one.
    """
    if not trace.steps:
        raise InvalidArgumentError(f"{name}: the trace has no order of calls; use mode hot")
    longest = max(len(step.calls) for step in trace.steps)
    whole = [step for step in trace.steps if 2 * len(step.calls) >= longest]
    return max(reversed(whole), key=lambda step: step.repeats)


def _select_calls(
    trace: Trace, asked: ReplaySettings, step: Step | None, pattern: str
) -> list[tuple[TracedCall, dict[Backend, Case]]]:
    """Return the selected calls with their cases; raise if there are none."""
    calls = _calls_of(trace, asked, step)
    if not calls:
        raise InvalidArgumentError(
            f"{asked.trace}: the trace has no calls, so there is nothing to replay"
        )
    first = [cases[asked.backends[0]] for _, cases in calls]
    meant = {case.id for case in selected(first, pattern)}
    if not meant:
        raise InvalidArgumentError(
            f"none of the {len(calls)} distinct calls matches {pattern!r}; "
            f"`torchmark summary {asked.trace}` lists them"
        )
    return [each for each, case in zip(calls, first, strict=True) if case.id in meant]


def _calls_of(
    trace: Trace, asked: ReplaySettings, step: Step | None
) -> list[tuple[TracedCall, dict[Backend, Case]]]:
    """Return every distinct call of the trace or step, with its case for each backend."""
    pairs = trace.counts if step is None else Counter(zip(step.calls, step.places, strict=True))
    places: dict[int, Counter[CallPlace]] = {}
    for (number, at), count in pairs.items():
        places.setdefault(number, Counter())[_call_place(trace.places[at])] += count
    found = []
    for number, label in enumerate(definitions_of(trace)):
        if number not in places:
            continue
        recorded = trace.calls[number]
        record, values = call_text(recorded), _values_argument(recorded, asked.values)
        cases = {each: _case_of(label, record, values, each, asked) for each in asked.backends}
        call = TracedCall(
            number=number,
            op=label[0],
            signature=label[1],
            record=record,
            count=places[number].total(),
            places=tuple(
                msgspec.structs.replace(place, count=count)
                for place, count in places[number].items()
            ),
            cases={each: case.id for each, case in cases.items()},
            has_values=values != "",
        )
        found.append((call, cases))
    return found


def _call_place(place: Place) -> CallPlace:
    """The place without its count; threads and compiled code are ignored."""
    return CallPlace(
        phase=place.phase,
        module=place.module,
        function=place.function,
        source=place.source,
        count=0,
    )


def hot_case(label: Sequence[str], record: str, asked: ReplaySettings) -> Case:
    """Return a case that measures a call alone, with eager, on random values."""
    by_itself = msgspec.structs.replace(asked, mode=ReplayMode.HOT)
    return _case_of(label, record, "", Backend.EAGER, by_itself)


def _case_of(
    label: Sequence[str], record: str, values: str, backend: Backend, asked: ReplaySettings
) -> Case:
    is_eager = backend is Backend.EAGER
    return Case(
        label=tuple(label),
        stmt=_STMT if is_eager else "run()",
        setup=(_EAGER if is_eager else _BY_BACKEND).format(
            backend=backend.value, record=record, seed=asked.seed, values=values
        ),
        num_threads=asked.threads,
        params=_params(backend, asked),
    )


def _pass_case(ids: Sequence[str], asked: ReplaySettings) -> Case:
    """Return the case for the whole step, which runs the cases with these ids in this order."""
    digest = hashlib.sha256(" ".join(ids).encode()).hexdigest()
    return Case(
        label=("whole step", f"{len(ids):,} calls in their order"),
        stmt="for op, args, kwargs in calls: op(*args, **kwargs)",
        setup=f"# the ids of the calls' cases have the digest {digest}",
        num_threads=asked.threads,
        params=_params(Backend.EAGER, asked),
    )


def _params(backend: Backend, asked: ReplaySettings) -> tuple[tuple[str, str], ...]:
    """Return the params; a call replayed in order has another time, so it is another case."""
    mode = (("mode", asked.mode.value),) if asked.mode is ReplayMode.ORDER else ()
    return (("backend", backend.value), *mode)
