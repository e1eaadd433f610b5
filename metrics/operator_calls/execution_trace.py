"""The dispatcher calls of a step by PyTorch's own observer: an independent count.

torch's ExecutionTraceObserver hears of every call that enters the dispatcher (not of the passes
from key to key within one), with its schema and with the call that it was made in. What is counted
is the call that reaches a backend, once: the outermost one that is not taken apart on its way.

- An operator whose autograd kernel is its CompositeImplicit one (`linear`, `reshape`, `to`) is only
  a function in C++: it is not counted, the calls that it makes are.
- What a counted call calls itself (`empty` in `add`) is that kernel's affair, below the level at
  which calls can be listened to or replaced, and not counted.
- Under autocast an operator casts its arguments and calls itself again: the inner call is the one
  that counts, and the casts beside it do too.
- `torch.tensor(data)` makes `empty`, `to`, `lift_fresh` and `detach_`, and hides all but
  `lift_fresh` from whoever listens: the four are one making of a tensor from Python's numbers.
- torch's observer leaves out `size`, `is_leaf` and the like, and the profiler's marks: no work.
"""

from __future__ import annotations

import functools
import itertools
import json
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ExecutionTraceObserver
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Calls = Counter[tuple[str, str]]
"""How often each operator (`aten::add.Tensor`) was called in each phase: (phase, operator)."""

BACKWARD = "autograd::engine::evaluate_function"
OPTIMIZER = "Optimizer.step#"
MODE = "PythonDispatchMode"
"""Names of marks."""


class Listener(TorchDispatchMode):
    """Does nothing. While any mode listens torch itself makes some calls in another way."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@dataclass
class Event:
    """What the observer wrote of one call or mark."""

    number: int
    parent: int
    name: str
    operator: str
    """With its overload, from the schema; empty for marks."""

    made: list[Event] = field(default_factory=list)
    """The events within, in their order."""


def count(step: Callable[[], object]) -> Calls:
    """The calls of a step with nothing but the observer on."""
    return Counter((phase, event.operator) for phase, event in _calls(_observed(step), "forward"))


def count_listened(step: Callable[[], object]) -> Calls:
    """The calls of a step while a mode listens that does nothing.

    A mode is also asked to copy a tensor's frame (`x.data`, what autograd saves), as a `detach`
    that never entered the dispatcher. Its one event is the mode's own; a real call has that within.
    """

    def listened() -> None:
        with Listener():
            step()

    return Counter(
        (phase, event.operator)
        for phase, event in _calls(_observed(listened), "forward")
        if event.operator != "aten::detach" or _calls_itself(event)
    )


def _calls(events: list[Event], phase: str) -> Iterator[tuple[str, Event]]:
    """Events that count, with their phase; see the rules above."""
    events = _without_making_of_tensors(events)
    for event, following in itertools.zip_longest(events, events[1:]):
        if _is_first_gradient(event, following):
            yield "backward", event
        elif not event.operator or _is_function(event.operator):
            yield from _calls(event.made, _phase_of(event, phase))
        elif _is_autocast(event):
            yield from _calls(event.made, phase)
        else:
            yield phase, event


def _is_first_gradient(event: Event, following: Event | None) -> bool:
    """`loss.backward()` makes a one before it starts autograd's engine, which makes the marks."""
    return (
        event.operator == "aten::ones_like"
        and following is not None
        and following.name.startswith(BACKWARD)
    )


def _phase_of(event: Event, outer: str) -> str:
    if event.name.startswith(BACKWARD):
        return "backward"
    # While a mode listens the optimizer's mark is made by it, and what follows is beside the mark.
    marks = [event, *event.made] if event.name == MODE else [event]
    return "optimizer" if any(mark.name.startswith(OPTIMIZER) for mark in marks) else outer


def _without_making_of_tensors(events: list[Event]) -> list[Event]:
    names = [event.operator for event in events]
    hidden = set()
    for at, name in enumerate(names):
        if name != "aten::lift_fresh":
            continue
        if at >= 2 and names[at - 2] == "aten::empty.memory_format" and "::to." in names[at - 1]:
            hidden |= {at - 2, at - 1}
        if names[at + 1 : at + 2] == ["aten::detach_"]:
            hidden.add(at + 1)
    return [event for at, event in enumerate(events) if at not in hidden]


@functools.cache
def _is_function(operator: str) -> bool:
    """Whether the dispatcher has filled the autograd key with the CompositeImplicit kernel."""
    table = torch._C._dispatch_dump_table(operator)
    entry = next(line for line in table.splitlines() if line.startswith("AutogradCPU:"))
    return entry.endswith("[math kernel]")


def _is_autocast(event: Event) -> bool:
    return _has_autocast(event.operator) and _calls_itself(event)


@functools.cache
def _has_autocast(operator: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator, "AutocastCPU"))


def _calls_itself(event: Event) -> bool:
    """Directly, marks between the two apart."""
    return any(_is_or_marks(inner, event.operator) for inner in event.made)


def _is_or_marks(event: Event, operator: str) -> bool:
    if event.operator:
        return event.operator == operator
    return any(_is_or_marks(inner, operator) for inner in event.made)


def _observed(step: Callable[[], object]) -> list[Event]:
    """The outermost events of a step."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "trace.json")
        observer = ExecutionTraceObserver()
        observer.register_callback(path)
        observer.start()
        try:
            step()
        finally:
            observer.stop()
            observer.unregister_callback()
        nodes = json.loads(Path(path).read_text(encoding="utf-8"))["nodes"]
    return _tree(sorted(map(_event, nodes), key=lambda event: event.number))


def _event(node: dict[str, Any]) -> Event:
    schema = next(item["value"] for item in node["attrs"] if item["name"] == "op_schema")
    return Event(
        number=node["id"],
        parent=node["ctrl_deps"],
        name=node["name"],
        operator=schema.partition("(")[0],
    )


def _tree(events: list[Event]) -> list[Event]:
    made: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event.parent != event.number:
            made[event.parent].append(event)
    for event in events:
        event.made = made[event.number]
    return [event for event in events if event.parent == event.number]
