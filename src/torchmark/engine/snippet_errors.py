"""A snippet that does not compile becomes torchmark's error, with the user's own line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchmark.errors import StatementSyntaxError
from torchmark_probe.loops.snippets import SnippetSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def as_user_error() -> Iterator[None]:
    """Turn the probe's error into the control side's; Python prints its line and caret."""
    try:
        yield
    except SnippetSyntaxError as failure:
        error = failure.error
        details = (f"<{failure.part}>", error.lineno, error.offset, error.text,
                   error.end_lineno, error.end_offset)  # fmt: skip
        message = f"the {failure.part} does not compile: {error.msg}"
        raise StatementSyntaxError(message, details) from None
