"""What was measured: the statement, its setup and the labels under which results are grouped."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class TaskSpec:
    """Everything that defines a Timer but its globals; equal specs are replicates."""

    stmt: str
    """The statement that is run in a loop."""

    setup: str
    """What runs before the loop."""

    global_setup: str = ""
    """C++ only: what stands at the top of the file."""

    label: str | None = None
    """The table that a result belongs to."""

    sub_label: str | None = None
    """The row; the statement itself where it is missing."""

    description: str | None = None
    """The column: usually the inputs."""

    env: str | None = None
    """The environment of torch, such as a branch."""

    num_threads: int = 1
    """Threads that torch may use."""

    @property
    def title(self) -> str:
        """One line for the measurement, or more if only the statement can name it.

        >>> TaskSpec("x + y", "pass", sub_label="float").title
        'x + y: float'
        """
        name = self.label if self.label is not None else self.stmt
        if self.label is None and "\n" in self.stmt:
            suffix = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{suffix}\n{textwrap.indent(self.stmt, '  ')}"
        return f"{name}: {self.sub_label}" if self.sub_label else name

    def setup_str(self) -> str:
        if not self.setup or self.setup == "pass":
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """The lines that describe the task where a result is printed."""
        sections = (self.title, self.description or "", self.setup_str())
        return "\n".join(f"{text}\n" if "\n" in text else text for text in sections if text)

    def __repr__(self) -> str:
        return f"<TaskSpec {self.title!r}>"
