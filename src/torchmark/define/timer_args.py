"""The low-level definition: what Timer takes, and nothing derived from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.arguments import check_count
from torchmark.define.skips import SkipCondition, check_skips
from torchmark.errors import DefinitionError
from torchmark.model.case import Language, find_language, trimmed

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class TimerArgs:
    """One statement as Timer takes it; several numbers of threads make several cases.

    >>> TimerArgs("y = x + 1", setup="x = torch.ones(4)", num_threads=(1, 2)).num_threads
    (1, 2)
    """

    stmt: str
    """What is run again and again."""

    setup: str = "pass"
    """What runs once before."""

    global_setup: str = ""
    """C++: what stands at the top of the file."""

    num_threads: int | tuple[int, ...] = 1
    """Threads that torch may use: a number, or several."""

    language: Language | str = Language.PYTHON
    """A Language, or "py" or "cpp" as Timer takes them."""

    skip: SkipCondition | tuple[SkipCondition, ...] | None = None
    """Where it is left out: what skip_if returns, one or several."""

    def __post_init__(self) -> None:
        for name in ("stmt", "setup", "global_setup"):
            object.__setattr__(self, name, trimmed(getattr(self, name)))
        given = self.language.lower() if isinstance(self.language, str) else self.language
        object.__setattr__(self, "language", find_language(given))
        threads = check_threads(self.num_threads)
        object.__setattr__(self, "num_threads", threads[0] if len(threads) == 1 else threads)
        object.__setattr__(self, "skip", check_skips(self.skip))
        if self.global_setup and self.language is Language.PYTHON:
            raise DefinitionError("global_setup is for C++; put Python's into setup")


def check_threads(num_threads: int | Iterable[int]) -> tuple[int, ...]:
    """One number of threads or several, as a tuple without repetitions."""
    given = tuple(num_threads) if hasattr(num_threads, "__iter__") else (num_threads,)
    numbers = tuple(check_count("num_threads", number) for number in given)
    if not numbers or len(set(numbers)) < len(numbers):
        raise DefinitionError(
            f"num_threads needs at least one number and none twice, got {num_threads!r}"
        )
    return numbers
