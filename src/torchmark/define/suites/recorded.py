"""A trace as a suite: each distinct call is a case, labelled by its operator and its arguments.

The call travels as text in the setup, where the probe makes inputs like the recorded ones. A call
with something that no trace can hold is a case too, skipped with its reason.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from torchmark.capture.traces.checking import sanitize
from torchmark.capture.traces.signatures import signature_of
from torchmark.define.skips import SkipCondition
from torchmark.define.timer_args import TimerArgs

if TYPE_CHECKING:
    from torchmark.define.expansion.cases import Label, Suite
    from torchmark.model.trace import RecordedCall, Trace

_STMT = "op(*args, **kwargs)"
_SETUP = """\
from torchmark_probe.replay.calls import rebuild, settle
settle()
recorded = {text!r}
op, args, kwargs = rebuild(recorded, seed=0)
"""


def definitions_of(trace: Trace) -> list[tuple[int, Label, TimerArgs]]:
    """The number of each distinct call, its label, and what measures it; no label is there twice.

    The order is that of the trace.
    """
    seen: Counter[Label] = Counter()
    found: list[tuple[int, Label, TimerArgs]] = []
    for number, call in enumerate(trace.calls):
        label: Label = (call.op, signature_of(call) or "()")
        seen[label] += 1
        if seen[label] > 1:
            label = (label[0], f"{label[1]} #{seen[label]}")
        found.append((number, label, definition_of(call)))
    return found


def suite_of(trace: Trace) -> Suite:
    """The same, as suites are written: by label."""
    return {label: definition for _, label, definition in definitions_of(trace)}


def definition_of(call: RecordedCall) -> TimerArgs:
    """One call as Timer takes it."""
    reason = why_not_replayed(call)
    return TimerArgs(
        _STMT,
        setup=_SETUP.format(text=call_text(call)),
        skip=None if reason is None else SkipCondition(reason=reason),
    )


def call_text(call: RecordedCall) -> str:
    """The call as JSON, which the probe takes: what stands behind `call` in a line of a trace."""
    body: dict[str, Any] = {
        "op": call.op,
        "schema": call.schema,
        "args": list(call.args),
        "kwargs": dict(call.kwargs),
    }
    if call.has_outputs:
        body["outputs"] = call.outputs
    return json.dumps(body, separators=(",", ":"), allow_nan=False)


def why_not_replayed(call: RecordedCall) -> str | None:
    """Why a call cannot be made again whatever torch there is; None if it can."""
    opaque = _first_opaque([*call.args, *call.kwargs.values()])
    return None if opaque is None else f"a trace cannot hold its argument of type {opaque}"


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
