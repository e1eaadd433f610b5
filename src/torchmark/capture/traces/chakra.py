"""PyTorch's execution traces (Chakra), imported: what ExecutionTraceObserver writes as JSON.

Such a file is a tree of nodes: `linear` has `t` and `addmm` in it, `relu` has `clamp_min`. A
capture sees calls where autograd has passed them on to a kernel. So a node is taken if it is an
operator that is not composite, and no node above it was taken: composite ones (`linear`,
`cross_entropy_loss`) are made of others before they come to a kernel, and what is within a taken
one (`clamp_min` in `relu`) is the kernel's own affair. Which operators are composite is a matter of
their registration in torch, and is a list beside this file.

Nodes within a function of the autograd engine are of the backward pass, those within a step of an
optimizer are the optimizer's, and a step of the trace ends there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmark.capture.traces.chakra_nodes import NodeText
from torchmark.capture.traces.chakra_values import NodeValues, parse_schema
from torchmark.capture.traces.checking import WrongValueError
from torchmark.capture.traces.names import sanitize
from torchmark.capture.traces.reading import check_call
from torchmark.capture.traces.steps import StepCollector
from torchmark.capture.traces.text import text_of
from torchmark.errors import TraceFileError
from torchmark.model.trace import Place, RecordedCall, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

_LARGEST_TEXT = 512 * 2**20
"""Bytes of a file. A node takes a kilobyte, so these are half a million calls with their parts."""

_MOST_NODES = 1_000_000
"""Real ones take that much room with half as many."""

_LARGEST_RECORDS = 128 * 2**20
"""Bytes of all distinct calls."""

_KNOWN = "1.1."
_BACKWARD = "autograd::engine::evaluate_function"
_OPTIMIZER = "Optimizer."
_OPTIMIZER_STEP = "Optimizer.step"


@dataclass(frozen=True, slots=True)
class _Node:
    """What is kept of a node."""

    id: int
    parent: int
    name: str
    thread: int

    is_composite: bool

    call: int | None
    """The number of the call that it is, if it is one."""


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What the nodes above a node say of it."""

    is_within_a_call: bool = False
    phase: str = "forward"
    function: str | None = None
    """The outermost composite operator."""

    optimizer_step: int | None = None
    """The node of the optimizer's step that it is within."""

    def with_node(self, node: _Node) -> _Surroundings:
        """The same for what is within that node."""
        phase, step = self.phase, self.optimizer_step
        if node.name.startswith(_BACKWARD):
            phase = "backward"
        elif node.name.startswith(_OPTIMIZER) and phase == "forward":
            phase = "optimizer"
        if step is None and node.name.startswith(_OPTIMIZER_STEP):
            step = node.id
        function = self.function or (node.name if node.is_composite else None)
        within = self.is_within_a_call or node.call is not None
        return _Surroundings(within, phase, function, step)


_OUTSIDE = _Surroundings()


def read_chakra(path: str | os.PathLike[str]) -> Trace:
    """The calls in a file of this form."""
    file = Path(path)
    text, is_whole = text_of(file, largest=_LARGEST_TEXT)
    reader = _Reader(NodeText(text))
    try:
        return reader.trace(is_whole=is_whole)
    except WrongValueError as error:
        raise TraceFileError(f"{file}: {error}") from error


class _Reader:
    """Nodes become calls as they come; the tree is known when all have come."""

    def __init__(self, text: NodeText) -> None:
        self._text = text
        self._nodes: dict[int, _Node] = {}
        self._numbers: dict[str, int] = {}
        self._calls: list[RecordedCall] = []
        self._kernels = 0
        self._record_bytes = 0

    def trace(self, *, is_whole: bool) -> Trace:
        for node in self._text.nodes():
            self._check_head()
            self._take(node)
        self._check_head()
        tree = _Tree(self._nodes)
        return tree.trace(self._calls, tuple(self._unseen(is_whole=is_whole)))

    def _check_head(self) -> None:
        version = (self._text.head or {}).get("schema")
        if not isinstance(version, str) or not version.startswith(_KNOWN):
            raise WrongValueError(
                f"is an execution trace of the form {sanitize(repr(version), 40)}; "
                f"those of {_KNOWN}x can be read"
            )

    def _take(self, record: dict[str, Any]) -> None:
        number, parent, name = (record.get(key) for key in ("id", "ctrl_deps", "name"))
        if type(number) is not int or type(parent) is not int or not isinstance(name, str):
            raise WrongValueError("has a node without an id, a name or what it is within")
        if len(self._nodes) >= _MOST_NODES:
            raise WrongValueError(f"has more than {_MOST_NODES:,} nodes; record fewer steps")
        attributes = _attributes(record)
        if attributes.get("kernel_backend"):
            self._kernels += 1
        schema = parse_schema(str(attributes.get("op_schema") or ""))
        is_composite = schema is not None and schema.op in _composite_operators()
        call = None
        if schema is not None and not is_composite:
            values = NodeValues()
            try:
                args, kwargs = values.arguments(schema, _side(record, "inputs"))
                body = {
                    "op": schema.op,
                    "schema": attributes["op_schema"],
                    "args": args,
                    "kwargs": kwargs,
                    "outputs": values.outputs(_side(record, "outputs")),
                }
                call = self._number_of(body)
            except WrongValueError as error:
                raise WrongValueError(f"node {number} {error}") from error
        thread = attributes.get("tid")
        self._nodes[number] = _Node(
            number, parent, sanitize(name), thread if type(thread) is int else 0, is_composite, call
        )

    def _number_of(self, body: dict[str, Any]) -> int:
        key = json.dumps(body)
        if key not in self._numbers:
            self._record_bytes += len(key)
            if self._record_bytes > _LARGEST_RECORDS:
                raise WrongValueError(
                    f"makes more than {_LARGEST_RECORDS // 2**20} MiB of distinct calls"
                )
            self._numbers[key] = len(self._calls)
            self._calls.append(check_call(body))
        return self._numbers[key]

    def _unseen(self, *, is_whole: bool) -> Iterator[str]:
        yield "contents of tensors are not in an execution trace, and floats have six digits there"
        if self._text.is_cut_off or not is_whole:
            yield (
                f"the file is cut off after {len(self._nodes):,} nodes: what came then is missing, "
                "and what those were part of"
            )
        if self._text.damaged:
            yield f"{self._text.damaged:,} nodes of the file are not JSON and are left out"
        if self._kernels:
            yield f"{self._kernels:,} kernels that torch.compile has made of several operators"


class _Tree:
    """The nodes as a tree, and which of its calls a capture would have seen."""

    def __init__(self, nodes: dict[int, _Node]) -> None:
        self._nodes = nodes
        self._numbers: dict[int, int] = {}
        self._places: dict[Place, int] = {}
        self._threads: dict[int, int] = {}

    def trace(self, calls: list[RecordedCall], unseen: tuple[str, ...]) -> Trace:
        collector = StepCollector()
        last: tuple[list[int], list[int]] | None = None
        for step in self._steps():
            if step == last:
                collector.again(1)
            else:
                collector.add(*step)
            last = step
        return Trace(
            source="chakra",
            calls=tuple(calls[number] for number in self._numbers),
            places=tuple(self._places),
            steps=tuple(collector.steps),
            counts=dict(collector.counts),
            unseen=unseen,
        )

    def _steps(self) -> Iterator[tuple[list[int], list[int]]]:
        """Nodes in the order in which they began, so that those above a node are known before."""
        known: dict[int, _Surroundings] = {}
        numbers: list[int] = []
        places: list[int] = []
        last_step: int | None = None
        for node in sorted(self._nodes.values(), key=lambda each: each.id):
            around = known.get(node.parent, _OUTSIDE)
            known[node.id] = around.with_node(node)
            if last_step is not None and around.optimizer_step != last_step:
                yield numbers, places
                numbers, places = [], []
            last_step = around.optimizer_step
            if node.call is None or around.is_within_a_call:
                continue
            numbers.append(self._numbers.setdefault(node.call, len(self._numbers)))
            places.append(self._places.setdefault(self._place(node, around), len(self._places)))
        if numbers:
            yield numbers, places

    def _place(self, node: _Node, around: _Surroundings) -> Place:
        thread = self._threads.setdefault(node.thread, len(self._threads))
        return Place(phase=around.phase, function=around.function, thread=thread)


def _attributes(record: dict[str, Any]) -> dict[str, Any]:
    attributes = record.get("attrs")
    if not isinstance(attributes, list):
        return {}
    return {
        each["name"]: each.get("value")
        for each in attributes
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    }


def _side(record: dict[str, Any], name: str) -> dict[str, Any]:
    side = record.get(name)
    if not isinstance(side, dict):
        raise WrongValueError(f"has no {name}")
    return side


@cache
def _composite_operators() -> frozenset[str]:
    text = (
        resources.files("torchmark.capture.traces").joinpath("composite_operators.txt").read_text()
    )
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))
