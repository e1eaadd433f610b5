"""The graphs that torch.compile makes kernels of, and when each of them runs.

AOTAutograd hands the graphs of forward and backward passes to inductor: operators on tensors that
have shapes and strides, and no content. Each is looked at on its way and left as it is, and what
inductor makes of it is known again when it runs. Two functions of inductor are wrapped for that,
once somebody imports it, so that who compiles nothing does not wait for that import. Its own cache
is used as always, by the same keys; that of AOTAutograd is not asked while we watch, because what
comes out of it has no graph any more.
"""

from __future__ import annotations

import contextlib
import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from torchmark.capture.compiled import never_compiled
from torchmark.capture.describing import CallDescription
from torchmark.capture.when_imported import when_imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

    from torchmark.capture.keys import Key


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
def watched_compiled_graphs(
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
    description = GraphDescription(args, kwargs).finished(node.meta.get("val"))
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
