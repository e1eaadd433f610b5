"""The graphs that torch.compile makes kernels of, and when each of them runs.

AOTAutograd hands the graphs of forward and backward passes to inductor: operators on tensors that
have shapes and strides, and no content. Each is looked at on its way and left as it is, and what
inductor makes of it is known again when it runs. Two functions of inductor are wrapped for that,
once somebody imports it, so that who compiles nothing does not wait for that import. Its own cache
is used as always, by the same keys; that of AOTAutograd is not asked while we watch, because what
comes out of it has no graph any more.

The calls of a graph go into the record each time that the graph runs. What the mode would see of
such a run (the few operators that inductor calls as they are) is in the graph already, as the
program called it; so the mode looks away meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from torchmark.capture.calls import CallMode
from torchmark.capture.compiled_code import never_compiled
from torchmark.capture.describing import CallDescription
from torchmark.capture.when_imported import when_imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

    from torchmark.capture.keys import Key
    from torchmark.capture.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCall:
    """One operator of a graph."""

    func: Any
    description: CallDescription

    key: Key
    """The same for calls that look the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGraph:
    """What inductor was given to compile."""

    calls: tuple[GraphCall, ...]

    left_out: tuple[str, ...]
    """Names of what is called in it and is no operator: kernels of the user, control flow."""


@contextlib.contextmanager
def watch_compiled_graphs(
    running: Callable[[CompiledGraph | None], AbstractContextManager[None]],
) -> Iterator[None]:
    """Each run of compiled code happens within `running(graph)`, in the thread that runs it.

    The graph is None for code that was compiled before this began.
    """
    with contextlib.ExitStack() as undo:
        compiled: dict[int, tuple[Any, CompiledGraph]] = {}
        undo.enter_context(_config().patch(enable_autograd_cache=False))
        undo.enter_context(
            when_imported(
                "torch._inductor.compile_fx",
                lambda module: _wrap(module, compiled, running, undo),
            )
        )
        yield


def _config() -> Any:
    from torch._functorch import config  # noqa: PLC0415 - torch has no other name for it

    return config


def _wrap(
    compile_fx: ModuleType,
    compiled: dict[int, tuple[Any, CompiledGraph]],
    running: Callable[[CompiledGraph | None], AbstractContextManager[None]],
    undo: contextlib.ExitStack,
) -> None:
    compile_graph = compile_fx._compile_fx_inner
    code = compile_fx.CompiledFxGraph
    run_code = code.__call__

    @functools.wraps(compile_graph)
    def compile_and_keep(graph_module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        # Before it is compiled, for inductor writes into it.
        graph = _graph(graph_module)
        result = compile_graph(graph_module, *args, **kwargs)
        compiled[id(result)] = result, graph
        return result

    @never_compiled
    @functools.wraps(run_code)
    def run_and_tell(self: Any, *args: Any, **kwargs: Any) -> Any:
        _, graph = compiled.get(id(self), (None, None))
        with running(graph):
            return run_code(self, *args, **kwargs)

    undo.callback(setattr, compile_fx, "_compile_fx_inner", compile_graph)
    undo.callback(setattr, code, "__call__", run_code)
    compile_fx._compile_fx_inner = compile_and_keep  # type: ignore[attr-defined]
    code.__call__ = run_and_tell


def _graph(graph_module: torch.fx.GraphModule) -> CompiledGraph:
    calls, left_out = [], []
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        if isinstance(node.target, torch._ops.OpOverload):
            if not node.target._schema.name.startswith("aten::sym_"):  # asks a size: no work
                calls.append(_call(node))
        elif getattr(node.target, "__module__", None) != "_operator":  # an item of a tuple
            left_out.append(str(node.target))
    return CompiledGraph(calls=tuple(calls), left_out=tuple(left_out))


def _call(node: torch.fx.Node) -> GraphCall:
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda given: given.meta["val"])
    description = GraphDescription(args, kwargs).finish(node.meta.get("val"))
    said = json.dumps([description.args, description.kwargs, description.outputs])
    return GraphCall(func=node.target, description=description, key=("compiled", node.target, said))


class GraphDescription(CallDescription):
    """Of values without content; sizes that may vary are those for which it was compiled."""

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
        """A plain tensor on `meta`, in a storage that it shares with those that share it here."""
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


class CompiledCalls:
    """Adds the calls of a graph to the record, at the place of the thread that runs the graph."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._places: dict[int, int] = {}
        self._pairs: dict[tuple[int, int], list[int]] = {}
        self._is_over = False

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        with watch_compiled_graphs(self._running):
            try:
                yield
            finally:
                self._is_over = True

    @contextlib.contextmanager
    def _running(self, graph: CompiledGraph | None) -> Iterator[None]:
        modes = _get_current_dispatch_mode_stack()
        mode = next((mode for mode in modes if isinstance(mode, CallMode)), None)
        if mode is None or not mode.is_on:
            yield
        elif graph is None:
            self._record.note_unseen(
                "{n} times code ran that torch.compile had compiled before the capture: the "
                "operators that it fused into kernels are not in here"
            )
            yield
        else:
            self._add(graph, mode.labels.known_calls().place)
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
            "{n} times a graph ran that torch.compile had compiled: the operators of the graph are "
            "in here, marked as compiled, and not the kernels that they were fused into"
        )
        for name in graph.left_out:
            self._record.note_unseen(
                f"{{n}} times {name} in a compiled graph, which is not an operator"
            )

    def _pairs_of(self, graph: CompiledGraph, place: int) -> list[int]:
        record = self._record
        compiled = self._places.get(place)
        if compiled is None:
            where = dataclasses.replace(record.places[place], compiled=True, function=None)
            compiled = self._places[place] = record.add_place(where)
        return [
            record.pair_of(record.add_call(call.key, call.func, call.description), compiled)
            for call in graph.calls
        ]
