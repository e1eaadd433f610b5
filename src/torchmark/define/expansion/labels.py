"""A suite is a nest of labels: dictionaries whose leaves are definitions, or lists of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torchmark.define.grouped import GroupedBenchmark
from torchmark.define.timer_args import TimerArgs
from torchmark.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterator

Definition = TimerArgs | GroupedBenchmark
Suite = Definition | Mapping[Any, Any] | list[Any] | tuple[Any, ...]
"""A definition, a list of them, or a dictionary from labels (a str, or a tuple of them) to suites.

The recursive type would be exact, but dictionaries do not vary in their keys, so that one of
`dict[tuple[str, ...], GroupedBenchmark]` would not be accepted inside of it."""

Label = tuple[str, ...]


def labelled(suite: Suite, label: Label = ()) -> Iterator[tuple[Label, Definition]]:
    """All definitions of a suite, in order, each with the labels above it.

    Several in one list are numbered, as nothing else would tell them apart.

    >>> suite = {"Pointwise": {("Math", "add"): [TimerArgs("x + 1"), TimerArgs("x + x")]}}
    >>> [" / ".join(label) for label, _ in labelled(suite)]
    ['Pointwise / Math / add / Case 1', 'Pointwise / Math / add / Case 2']
    """
    if isinstance(suite, (TimerArgs, GroupedBenchmark)):
        yield label, suite
    elif isinstance(suite, Mapping):
        for key, part in suite.items():
            yield from labelled(part, label + _label_of(key, label))
    elif isinstance(suite, (list, tuple)):
        for number, part in enumerate(suite, start=1):
            case = (f"Case {number}",) if len(suite) > 1 else ()
            yield from labelled(part, label + case)
    else:
        raise DefinitionError(
            f"{_place(label)} holds {suite!r}, which is no definition: a suite has TimerArgs, "
            "GroupedStmts, GroupedModules, GroupedVariants, lists and dictionaries of them"
        )


def holds_a_definition(value: object) -> bool:
    """Whether there is a definition in the value, however wrong the rest may be."""
    if isinstance(value, Mapping):
        return any(holds_a_definition(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return any(holds_a_definition(part) for part in value)
    return isinstance(value, (TimerArgs, GroupedBenchmark))


def _label_of(key: object, above: Label) -> Label:
    parts = () if key is None else key if isinstance(key, tuple) else (key,)
    if not all(isinstance(part, str) and part.strip() for part in parts):
        raise DefinitionError(
            f"{_place(above)} has the label {key!r}; a label is a str or a tuple of them"
        )
    return parts


def _place(label: Label) -> str:
    return f"the suite at {' / '.join(label)!r}" if label else "the suite"
