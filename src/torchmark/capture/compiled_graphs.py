"""Record the operators of the graphs that torch.compile compiles, each time a graph runs.

AOTAutograd passes the graphs of forward and backward passes to inductor: operators on tensors with
shapes and strides, without contents. Each graph is read and left unchanged, and the code that
inductor makes of it is recognised when it runs. For this, two functions of inductor are wrapped as
soon as the program imports it, so a program that compiles nothing does not wait for that import.
The cache of inductor is used as always, with the same keys. The cache of AOTAutograd is turned off
during the capture, because its entries have no graph.

While compiled code runs, the mode is off. It would see the few operators that inductor calls
directly, but the graph already has these, as the program called them.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import torch
from msgspec import structs

from torchmark.capture.calls import mode_here, never_compiled
from torchmark.capture.describing import CallDescription
from torchmark.capture.known import Key
from torchmark.capture.record import Record, op_name
from torchmark.capture.traces.checking import is_operator
from torchmark.capture.user_program import replace_attribute, when_imported


class GraphCall(NamedTuple):
    """One operator of a graph."""

    key: Key
    func: Any
    description: CallDescription


class CompiledGraph(NamedTuple):
    """A graph that was given to inductor."""

    calls: list[GraphCall]
    left_out: list[str]
    """Names of what the graph calls that is not an operator: kernels of the user, control flow."""


class CompiledGraphs:
    """Adds the calls of a graph to the record, with the place of the thread that runs the graph."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._graphs: dict[int, tuple[Any, CompiledGraph]] = {}
        """Graphs by the id of their compiled code, which is kept so that its id stays unique."""

        self._places: dict[int, int] = {}
        self._pairs: dict[tuple[int, int], list[int]] = {}
        self._undo = contextlib.ExitStack()
        self._is_over = False

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        from torch._functorch import config  # noqa: PLC0415 - torch has no other name for it

        with self._undo:
            self._undo.enter_context(config.patch(enable_autograd_cache=False))
            self._undo.enter_context(when_imported("torch._inductor.compile_fx", self._wrap))
            try:
                yield
            finally:
                self._is_over = True

    def _wrap(self, compile_fx: ModuleType) -> None:
        compile_graph = compile_fx._compile_fx_inner
        run_code = compile_fx.CompiledFxGraph.__call__

        @functools.wraps(compile_graph)
        def compile_and_keep(graph_module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            # Before it is compiled, because inductor changes it.
            graph = _graph(graph_module)
            result = compile_graph(graph_module, *args, **kwargs)
            self._graphs[id(result)] = result, graph
            return result

        @never_compiled
        @functools.wraps(run_code)
        def run_and_record(compiled: Any, *args: Any, **kwargs: Any) -> Any:
            with self._running(compiled):
                return run_code(compiled, *args, **kwargs)

        for owner, name, replacement in (
            (compile_fx, "_compile_fx_inner", compile_and_keep),
            (compile_fx.CompiledFxGraph, "__call__", run_and_record),
        ):
            self._undo.enter_context(replace_attribute(owner, name, replacement))

    @contextlib.contextmanager
    def _running(self, code: Any) -> Iterator[None]:
        mode = mode_here()
        if mode is None or not mode.is_on:
            yield
        elif id(code) not in self._graphs:
            self._record.note_unseen(
                "the fused operators in {n} runs of code that torch.compile had compiled before "
                "the capture"
            )
            yield
        else:
            _, graph = self._graphs[id(code)]
            self._add(graph, mode.labels.place_of_graph())
            mode.is_on = False
            try:
                yield
            finally:
                mode.is_on = not self._is_over

    def _add(self, graph: CompiledGraph, place: int) -> None:
        pairs = self._pairs.get((id(graph), place))
        if pairs is None:
            pairs = self._pairs[id(graph), place] = self._pairs_of(graph, place)
        self._record.sequence.extend(pairs)
        self._record.note_unseen(
            "the fused kernels in {n} runs of graphs compiled by torch.compile: the trace has the "
            "operators of the graphs instead, marked as compiled"
        )
        for name in graph.left_out:
            self._record.note_unseen(
                f"{{n}} calls of {name} in compiled graphs, because it is not an operator"
            )

    def _pairs_of(self, graph: CompiledGraph, place: int) -> list[int]:
        record = self._record
        compiled = self._places.get(place)
        if compiled is None:
            where = structs.replace(record.places[place], compiled=True, function=None)
            compiled = self._places[place] = record.add_place(where)
        return [record.pair_of(record.add_call(*call), compiled) for call in graph.calls]


def _graph(graph_module: torch.fx.GraphModule) -> CompiledGraph:
    graph = CompiledGraph([], [])
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        if isinstance(node.target, torch._ops.OpOverload) and is_operator(op_name(node.target)):
            if not node.target._schema.name.startswith("aten::sym_"):  # asks for a size: no work
                graph.calls.append(_call(node))
        elif getattr(node.target, "__module__", None) != "_operator":  # an item of a tuple
            graph.left_out.append(str(node.target))
    return graph


def _call(node: torch.fx.Node) -> GraphCall:
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda given: given.meta["val"])
    description = GraphDescription(args, kwargs).finish(node.meta.get("val"))
    said = json.dumps([description.args, description.kwargs, description.outputs])
    return GraphCall((node.target, "compiled", said), node.target, description)


class GraphDescription(CallDescription):
    """Describes values without contents. A symbolic size is the size it was compiled for."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._storages_of: dict[int, torch.UntypedStorage] = {}
        super().__init__(tuple(args), kwargs)

    def _value(self, value: Any) -> Any:
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            value = value.node.hint
        return super()._value(value)

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        described = super()._tensor(self._without_symbols(tensor))
        if "tensor" in described and tensor.device.type != "cpu":
            described["tensor"]["device"] = str(tensor.device)
        elif "tensor" in described:
            del described["tensor"]["device"]
        return described

    def _without_symbols(self, tensor: torch.Tensor) -> torch.Tensor:
        """A plain tensor on `meta`. Tensors that share a storage share one here, too."""
        of = tensor.untyped_storage()
        storage = self._storages_of.get(of._cdata)
        if storage is None:
            size = _hint(of.nbytes())
            storage = torch.empty(size, dtype=torch.uint8, device="meta").untyped_storage()
            self._storages_of[of._cdata] = storage
        plain = torch.empty(0, dtype=tensor.dtype, device="meta")
        return plain.set_(
            storage,
            _hint(tensor.storage_offset()),
            [_hint(size) for size in tensor.shape],
            [_hint(stride) for stride in tensor.stride()],
        )


def _hint(size: int | torch.SymInt) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size
