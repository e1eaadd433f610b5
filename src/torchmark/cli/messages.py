"""What a person reads when a statement fails: their own line, and what Python says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.engine.user_code import format_users_frames

if TYPE_CHECKING:
    from torchmark.errors import StatementSyntaxError


def syntax_message(error: StatementSyntaxError) -> str:
    """The line and a caret under the place that does not compile."""
    lines = [f"{error.msg} (line {error.lineno or 1})"]
    if error.text is not None:
        text = error.text.rstrip("\n")
        lines.append(f"    {text}")
        start = max(0, (error.offset or 1) - 1)
        # Where the error spans several lines only its start is shown.
        end = error.end_offset or 0
        width = max(1, end - 1 - start) if error.end_lineno in (None, error.lineno) else 1
        lines.append("    " + " " * start + "^" * min(width, max(1, len(text) - start)))
    return "\n".join(lines)


def failure_message(error: BaseException) -> str:
    """The traceback of a statement that raised, shortened to the user's code."""
    return f"the statement failed:\n{format_users_frames(error)}"
