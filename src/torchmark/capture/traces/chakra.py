"""Import PyTorch's execution traces (Chakra): the JSON files that ExecutionTraceObserver writes.

Such a file is a tree of nodes: `linear` contains `t` and `addmm`, and `relu` contains `clamp_min`.
A capture sees calls after autograd has passed them to a kernel. So a node is taken if it is an
operator that is not composite, and no node above it was taken. Composite operators (`linear`,
`cross_entropy_loss`) call others before they reach a kernel. What a taken node contains
(`clamp_min` in `relu`) is called by its kernel. Which operators are composite depends on their
registration in torch; a file in this folder lists them.

Nodes inside a function of the autograd engine belong to the backward pass. Nodes inside a step of
an optimizer belong to the optimizer, and a step of the trace ends there. DistributedDataParallel
copies buckets into gradients after the last function of the engine. These copies, and everything
else in a thread of the engine, belong to the backward pass, too.

Version 1.0.1 of the format has the same contents in flat nodes. Strides exist from 1.1.1 on.

torch 2.13 does not escape names of ranges, so a quote in a name makes its node invalid JSON. Such a
node is left out and counted. A file that is cut off is read up to its last complete node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import Struct

from torchmark.capture.traces.chakra_values import NodeValues, parse_schema
from torchmark.capture.traces.checking import DistinctCalls, WrongValueError, convert, sanitize
from torchmark.capture.traces.files import text_of
from torchmark.errors import TraceFileError
from torchmark.model.trace import Phase, Place, Step, Trace, count_calls

_LARGEST_TEXT = 512 * 2**20
"""Bytes of a file. A node takes a kilobyte, so this is half a million calls with their parts."""

_MOST_NODES = 1_000_000
"""Real nodes reach _LARGEST_TEXT at half this number."""

_MOST_DAMAGED = 10_000
"""Limits the repeated searches in a text that is not JSON at all."""

_KNOWN = ("1.0.", "1.1.")
_BACKWARD = "autograd::engine::evaluate_function"
_REDUCER = ("torch.distributed.ddp.reducer::", "torch::distributed::reducer::")
"""Ranges in which DistributedDataParallel handles gradients."""

_THREAD = "|thread]"
_OPTIMIZER = "Optimizer."
_OPTIMIZER_STEP = "Optimizer.step"

_HEAD = re.compile(r'\s*\{.*?"nodes"\s*:\s*\[', re.DOTALL)
_BETWEEN_NODES = tuple(" \t\r\n,")
_NODE = re.compile(r'\{\s*("name"\s*:\s*"[^"]*"\s*,\s*)?"id"\s*:\s*\d')
_DECODER = json.JSONDecoder()


class _Attribute(Struct, frozen=True):
    name: str
    value: Any = None


class _Record(Struct, frozen=True):
    """A node in the file."""

    id: int
    ctrl_deps: int
    """The id of the node that contains it."""

    name: str
    attrs: list[_Attribute] = []
    inputs: Any = None
    outputs: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """The part of a node that is kept."""

    id: int
    parent: int
    name: str
    thread: int
    is_composite: bool
    call: int | None
    """The number of its call; None if the node is not a call."""


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What follows for a node from the nodes that contain it."""

    is_within_a_call: bool = False
    phase: Phase = "forward"
    function: str | None = None
    """The outermost composite operator."""

    optimizer_step: int | None = None
    """The id of the containing node that is a step of an optimizer."""

    def with_node(self, node: _Node) -> _Surroundings:
        """The surroundings of the nodes that this node contains."""
        phase, step = self.phase, self.optimizer_step
        if node.name.startswith((_BACKWARD, *_REDUCER)):
            phase = "backward"
        elif node.name.startswith(_OPTIMIZER) and phase == "forward":
            phase = "optimizer"
        if step is None and node.name.startswith(_OPTIMIZER_STEP):
            step = node.id
        function = self.function or (node.name if node.is_composite else None)
        within = self.is_within_a_call or node.call is not None
        return _Surroundings(within, phase, function, step)


def read_chakra(file: Path) -> Trace:
    text, is_whole = text_of(file, largest=_LARGEST_TEXT)
    try:
        return _Reader(text, is_cut_off=not is_whole).trace()
    except WrongValueError as error:
        raise TraceFileError(f"{file} {error}") from error


class _Reader:
    """Turns nodes into calls one by one; the tree is complete when all nodes are read."""

    def __init__(self, text: str, *, is_cut_off: bool) -> None:
        self._text = text
        self._is_cut_off = is_cut_off
        self._damaged = 0
        self._has_strides = False
        self._nodes: dict[int, _Node] = {}
        self._distinct = DistinctCalls()
        self._kernels = 0
        self._taken: dict[int, int] = {}
        """Numbers of calls in the trace, by their numbers in `_distinct`."""

        self._places: dict[Place, int] = {}
        self._threads: dict[int, int] = {}

    def trace(self) -> Trace:
        for record in self._records(_check_head(self._text)):
            self._take(record)
        steps = [
            Step(calls=calls, places=places, repeats=len(list(same)))
            for (calls, places), same in groupby(self._sequences())
        ]
        return Trace(
            source="chakra",
            calls=tuple(self._distinct.calls[number] for number in self._taken),
            places=tuple(self._places),
            steps=tuple(steps),
            counts=count_calls(steps),
            unseen=tuple(self._unseen()),
        )

    def _records(self, position: int) -> Iterator[Any]:
        """The objects in the list of nodes, from this position on, without unreadable ones."""
        while True:
            while self._text[position : position + 1] in _BETWEEN_NODES:
                position += 1
            if self._text.startswith("]", position):
                return
            try:
                record, position = _decode_node(self._text, position)
            except (ValueError, RecursionError):
                following = _NODE.search(self._text, position + 1)
                if following is None:
                    self._is_cut_off = True
                    return
                self._damaged += 1
                if self._damaged > _MOST_DAMAGED:
                    raise WrongValueError(
                        f"has more than {_MOST_DAMAGED:,} nodes that are not valid JSON"
                    ) from None
                position = following.start()
            else:
                yield record

    def _take(self, record: Any) -> None:
        node: _Record = convert(_with_parts(record), _Record, "node")
        self._has_strides |= isinstance(node.inputs, dict) and "strides" in node.inputs
        if len(self._nodes) >= _MOST_NODES:
            raise WrongValueError(f"has more than {_MOST_NODES:,} nodes; record fewer steps")
        attributes = {each.name: each.value for each in node.attrs}
        if attributes.get("kernel_backend"):
            self._kernels += 1
        schema = parse_schema(str(attributes.get("op_schema") or ""))
        is_composite = schema is not None and schema.op in composite_operators()
        call = None
        if schema is not None and not is_composite:
            values = NodeValues()
            try:
                args, kwargs = values.arguments(schema, node.inputs)
                body = {
                    "op": schema.op,
                    "schema": attributes["op_schema"],
                    "args": args,
                    "kwargs": kwargs,
                    "outputs": values.outputs(node.outputs),
                }
                call = self._distinct.number_of(body)
            except WrongValueError as error:
                raise WrongValueError(f"has a wrong node: node {node.id} {error}") from error
        thread = attributes.get("tid")
        self._nodes[node.id] = _Node(
            id=node.id,
            parent=node.ctrl_deps,
            name=sanitize(node.name),
            thread=thread if type(thread) is int else 0,
            is_composite=is_composite,
            call=call,
        )

    def _sequences(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The calls and places of each step, as a capture would have seen them."""
        known: dict[int, _Surroundings] = {}
        backward = self._backward_nodes()
        calls: list[int] = []
        places: list[int] = []
        last_step: int | None = None
        # In the order of their starts, so the nodes that contain a node come first.
        for node in sorted(self._nodes.values(), key=lambda each: each.id):
            around = known.get(node.parent, _Surroundings())
            if node.id in backward:
                around = replace(around, phase="backward")
            known[node.id] = around.with_node(node)
            if last_step is not None and around.optimizer_step != last_step:
                yield tuple(calls), tuple(places)
                calls, places = [], []
            last_step = around.optimizer_step
            if node.call is None or around.is_within_a_call:
                continue
            thread = self._threads.setdefault(node.thread, len(self._threads))
            place = Place(phase=around.phase, function=around.function, thread=thread)
            calls.append(self._taken.setdefault(node.call, len(self._taken)))
            places.append(self._places.setdefault(place, len(self._places)))
        if calls:
            yield tuple(calls), tuple(places)

    def _backward_nodes(self) -> set[int]:
        """Nodes of the backward pass that are not inside a range of the engine.

        These are threads that begin with a function of the engine, and operators directly before a
        range of the reducer, which inspects its buckets before it copies.
        """
        found = set()
        first_on: dict[int, _Node] = {}
        is_before_reducer: dict[int, bool] = {}
        for node in sorted(self._nodes.values(), key=lambda each: -each.id):
            if node.call is None:
                is_before_reducer[node.parent] = node.name.startswith(_REDUCER)
            elif is_before_reducer.get(node.parent):
                found.add(node.id)
            if node.name.endswith(_THREAD):
                first = first_on.get(node.id)
                if first is not None and first.name.startswith(_BACKWARD):
                    found.add(node.id)
            first_on[node.parent] = node
        return found

    def _unseen(self) -> Iterator[str]:
        yield "the contents of tensors, and floats beyond six digits: execution traces lack them"
        if self._nodes and not self._has_strides:
            yield (
                "the strides of tensors, which execution traces have from version 1.1.1 on: all "
                "tensors count as contiguous"
            )
        if self._is_cut_off:
            yield (
                f"everything after {len(self._nodes):,} nodes, where the file is cut off, and the "
                "operators that were not finished there"
            )
        if self._damaged:
            yield f"{self._damaged:,} nodes of the file that are not valid JSON"
        if self._kernels:
            yield f"{self._kernels:,} kernels that torch.compile made of several operators"


def _check_head(text: str) -> int:
    """The position of the nodes. Raise if the version of the format is not known."""
    head = _HEAD.match(text)
    if head is None:
        raise WrongValueError("is not an execution trace: it has no list of nodes")
    try:
        version = json.loads(head[0] + "]}").get("schema")
    except (ValueError, RecursionError) as error:
        raise WrongValueError("is not an execution trace: its beginning is not JSON") from error
    if not isinstance(version, str) or not version.startswith(_KNOWN):
        raise WrongValueError(
            f"is an execution trace of version {sanitize(repr(version), 40)}; torchmark reads "
            f"versions {' and '.join(f'{known}x' for known in _KNOWN)}"
        )
    return head.end()


def _with_parts(record: Any) -> Any:
    """A node in the form of later versions, if it is a flat node of the first version."""
    if not isinstance(record, dict) or "parent" not in record:
        return record
    sides = {
        f"{side}s": {
            "values": record.get(f"{side}s"),
            "types": record.get(f"{side}_types"),
            "shapes": record.get(f"{side}_shapes"),
        }
        for side in ("input", "output")
    }
    attributes = [{"name": name, "value": record.get(name)} for name in ("op_schema", "tid")]
    return {**record, "ctrl_deps": record["parent"], "attrs": attributes, **sides}


def _decode_node(text: str, position: int) -> tuple[Any, int]:
    """The object at this position, and the position after it."""
    if _NODE.match(text, position) is None:
        raise ValueError("no node starts here")
    return _DECODER.raw_decode(text, position)


@cache
def composite_operators() -> frozenset[str]:
    listed = resources.files(__package__).joinpath("composite_operators.txt").read_text()
    return frozenset(line for line in listed.splitlines() if not line.startswith("#"))
