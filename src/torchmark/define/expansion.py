"""A suite becomes flat cases: language × runtime × passes × threads, for each point of a grid.

A suite is a nest of labels: dictionaries whose leaves are definitions, or lists of them. The order
of the cases is that of the suite; within a definition parameters change slowest, then the language
(Python, C++), the runtime (eager, TorchScript, compiled), the passes, and threads fastest. What
runs is text, so expansion needs no torch.
"""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchmark.define.grouped import GroupedBenchmark, TimerArgs, check_threads
from torchmark.define.params import points
from torchmark.define.skips import (
    NOTHING_KNOWN,
    EnvironmentFacts,
    SkipCondition,
    check_skips,
    skip_reason,
)
from torchmark.define.snippets import snippet_of
from torchmark.errors import DefinitionError
from torchmark.model.case import Autograd, Case, Language, Runtime

Definition = TimerArgs | GroupedBenchmark
Suite = Definition | Mapping[Any, Any] | list[Any] | tuple[Any, ...]
"""A definition, a list of them, or a dictionary from labels (a str, or a tuple of them) to suites.

The recursive type would be exact, but dictionaries do not vary in their keys, so that one of
`dict[tuple[str, ...], GroupedBenchmark]` would not be accepted inside of it."""

Label = tuple[str, ...]


def label_definitions(suite: Suite, label: Label = ()) -> Iterator[tuple[Label, Definition]]:
    """All definitions of a suite, in order, each with the labels above it.

    Several in one list are numbered, as nothing else would tell them apart.

    >>> suite = {"Pointwise": {("Math", "add"): [TimerArgs("x + 1"), TimerArgs("x + x")]}}
    >>> [" / ".join(label) for label, _ in label_definitions(suite)]
    ['Pointwise / Math / add / Case:  0', 'Pointwise / Math / add / Case:  1']
    """
    if isinstance(suite, (TimerArgs, GroupedBenchmark)):
        yield label, suite
    elif isinstance(suite, Mapping):
        for key, part in suite.items():
            yield from label_definitions(part, label + _label_of(key, label))
    elif isinstance(suite, (list, tuple)):
        for number, part in enumerate(suite):
            case = (f"Case: {number:>2}",) if len(suite) > 1 else ()
            yield from label_definitions(part, label + case)
    else:
        raise DefinitionError(
            f"{_place(label)} holds {reprlib.repr(suite)}, of type {type(suite).__name__}, which "
            "is not a definition: a suite has TimerArgs, GroupedStmts, GroupedModules, "
            "GroupedVariants, lists and dictionaries of them"
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


def materialize(suite: Suite, *, facts: EnvironmentFacts = NOTHING_KNOWN) -> tuple[Case, ...]:
    """All cases of a suite; those that a definition wants left out say why in `skip`.

    >>> from torchmark.define.grouped import GroupedStmts
    >>> suite = {"Math": {"add": GroupedStmts("x + 1", "x + 1;", num_threads=(1, 2))}}
    >>> for case in materialize(suite):
    ...     print(case.title)
    Math / add · Python, eager, forward
    Math / add · Python, eager, forward, 2 threads
    Math / add · C++, eager, forward
    Math / add · C++, eager, forward, 2 threads
    """
    return judge_skips(expand(suite), facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalCase:
    """A case, and where it is left out."""

    case: Case
    skip: tuple[SkipCondition, ...] = ()


def expand(suite: Suite) -> tuple[ConditionalCase, ...]:
    """All cases of a suite, before anything is known of the environment."""
    cases: dict[str, ConditionalCase] = {}
    for label, definition in label_definitions(suite):
        skip = check_skips(definition.skip)
        for case in _cases_of(label, definition):
            if case.id in cases:
                raise DefinitionError(f"the suite has the same case twice: {case.title}")
            cases[case.id] = ConditionalCase(case=case, skip=skip)
    return tuple(cases.values())


def judge_skips(cases: Iterable[ConditionalCase], facts: EnvironmentFacts) -> tuple[Case, ...]:
    """The cases, with the reason for which each is left out there, if there is one."""
    return tuple(replace(each.case, skip=skip_reason(each.skip, facts)) for each in cases)


def features_asked(cases: Iterable[ConditionalCase]) -> frozenset[str]:
    """The features of torch on which a skip depends: what EnvironmentFacts needs."""
    return frozenset(
        condition.missing for each in cases for condition in each.skip if condition.missing
    )


def _cases_of(label: Label, definition: Definition) -> Iterator[Case]:
    if isinstance(definition, GroupedBenchmark):
        yield from _expand_group(label, definition)
        return
    assert isinstance(definition.language, Language), "TimerArgs has looked the name up"
    for threads in check_threads(definition.num_threads):
        yield Case(
            label=label,
            stmt=definition.stmt,
            setup=_setup(definition.setup, definition.language),
            global_setup=definition.global_setup,
            language=definition.language,
            num_threads=threads,
        )


def _expand_group(label: Label, benchmark: GroupedBenchmark) -> Iterator[Case]:
    passes = [Autograd.FORWARD, *([Autograd.FORWARD_BACKWARD] if benchmark.autograd else [])]
    for point in points(benchmark.params):
        for (language, runtime), autograd, threads in itertools.product(
            _ways(benchmark), passes, benchmark.num_threads
        ):
            snippet = snippet_of(benchmark, language, runtime, autograd, point)
            yield Case(
                label=label,
                stmt=snippet.stmt,
                setup=_setup(snippet.setup, language),
                global_setup=benchmark.setup.global_setup if language is Language.CPP else "",
                language=language,
                runtime=runtime,
                autograd=autograd,
                num_threads=threads,
                params=tuple((name, str(value)) for name, value in point),
                model=snippet.model,
            )


def _setup(setup: str, language: Language) -> str:
    """A setup that does nothing: `pass` is that in Python, and is no C++."""
    if language is Language.PYTHON:
        return setup or "pass"
    return "" if setup == "pass" else setup


def _ways(benchmark: GroupedBenchmark) -> list[tuple[Language, Runtime]]:
    """The languages, each with its runtimes.

    A scripted model runs in C++ wherever the setup in C++ makes its inputs, also if the
    definition has no statement or module in C++.
    """
    has_python = benchmark.py_fwd_stmt is not None
    has_cpp = benchmark.cpp_fwd_stmt is not None
    is_wanted = {
        (Language.PYTHON, Runtime.EAGER): has_python,
        (Language.PYTHON, Runtime.TORCHSCRIPT): benchmark.torchscript,
        (Language.PYTHON, Runtime.COMPILED): benchmark.compile,
        (Language.CPP, Runtime.EAGER): has_cpp,
        (Language.CPP, Runtime.TORCHSCRIPT): benchmark.torchscript
        and (has_cpp or bool(benchmark.setup.cpp_setup)),
    }
    return [way for way, wanted in is_wanted.items() if wanted]
