"""The calls of compiled graphs, put into the record each time that the graph runs.

What the mode would see of such a run (the few operators that inductor calls as they are) is in the
graph already, as the program called it; so the mode looks away meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from torchmark.capture.calls import CallMode
from torchmark.capture.compiled_graphs import watched_compiled_graphs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchmark.capture.compiled_graphs import CompiledGraph
    from torchmark.capture.record import Record


class CompiledCalls:
    """Adds them where the thread is that runs the graph."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._places: dict[int, int] = {}
        self._pairs: dict[tuple[int, int], list[int]] = {}
        self._is_over = False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        with watched_compiled_graphs(self._running):
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
            self._record.not_seen(
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
        self._record.not_seen(
            "{n} times a graph ran that torch.compile had compiled: the operators of the graph are "
            "in here, marked as compiled, and not the kernels that they were fused into"
        )
        for name in graph.left_out:
            self._record.not_seen(f"{{n}} times {name} in a compiled graph, which is no operator")

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
