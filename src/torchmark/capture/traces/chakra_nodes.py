"""The nodes of PyTorch's execution trace, one after the other: a JSON text of any length.

torch 2.13 writes names of ranges into the file as they are, so a quote in one makes its node no
JSON. Such a node is left out and counted; a text that is cut off ends with its last whole node.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchmark.capture.traces.checking import WrongValueError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANK = re.compile(r"[ \t\r\n]*")
_NODE = re.compile(r'\{\s*"id"\s*:\s*\d')
_MOST_DAMAGED = 10_000
"""A text that is no JSON anywhere would be searched again and again."""

_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class NodeText:
    """A cursor in the text."""

    text: str
    position: int = 0

    head: dict[str, Any] | None = None
    """What stands before the nodes, when they have been reached."""

    damaged: int = 0
    """Nodes that are no JSON."""

    is_cut_off: bool = False

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Each node that is an object."""
        self.head = self._read_head()
        while True:
            self._skip_blanks()
            if self.text.startswith("]", self.position):
                return
            found = _NODE.match(self.text, self.position)
            node = None if found is None else self._read_node()
            if node is not None:
                yield node
                self._skip_blanks()
                self.position += self.text.startswith(",", self.position)
            elif not self._go_to_next_node():
                self.is_cut_off = True
                return

    def _read_head(self) -> dict[str, Any]:
        head: dict[str, Any] = {}
        self._expect("{")
        while True:
            key = self._value()
            self._expect(":")
            if key == "nodes":
                self._expect("[")
                return head
            head[str(key)] = self._value()
            self._expect(",")

    def _read_node(self) -> dict[str, Any] | None:
        try:
            value = self._value()
        except WrongValueError:
            return None
        return value if isinstance(value, dict) else None

    def _go_to_next_node(self) -> bool:
        """Leave out what cannot be read, if there is a node after it."""
        found = _NODE.search(self.text, self.position + 1)
        if found is None:
            return False
        self.damaged += 1
        if self.damaged > _MOST_DAMAGED:
            raise WrongValueError(f"has more than {_MOST_DAMAGED:,} nodes that are not JSON")
        self.position = found.start()
        return True

    def _value(self) -> Any:
        self._skip_blanks()
        try:
            value, self.position = _DECODER.raw_decode(self.text, self.position)
        except (ValueError, RecursionError) as error:
            raise WrongValueError("is not an execution trace: its beginning is not JSON") from error
        return value

    def _expect(self, mark: str) -> None:
        self._skip_blanks()
        if not self.text.startswith(mark, self.position):
            raise WrongValueError(
                f"is not an execution trace: {mark!r} is missing before its nodes"
            )
        self.position += 1

    def _skip_blanks(self) -> None:
        match = _BLANK.match(self.text, self.position)
        assert match is not None, "nothing is a match too"
        self.position = match.end()
