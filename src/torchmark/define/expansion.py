"""Expands a suite into cases: language × runtime × passes × threads, for each point of a grid.

A suite is a nest of labels: dictionaries whose leaves are definitions or lists of definitions. The
cases have the order of the suite. Within a definition, parameters change slowest, then the language
(Python, C++), the runtime (eager, TorchScript, compiled), the passes, and threads fastest. Cases
are text, so expansion does not need torch.
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

The exact recursive type would not accept a nested `dict[tuple[str, ...], GroupedBenchmark]`,
because dictionaries are invariant in their keys."""

Label = tuple[str, ...]


def label_definitions(suite: Suite, label: Label = ()) -> Iterator[tuple[Label, Definition]]:
    """Yield all definitions of a suite, in order, each with the labels above it.

    Definitions in the same list are numbered, to give them different labels.

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
            "is not a definition: a suite consists of TimerArgs, GroupedStmts, GroupedModules and "
            "GroupedVariants, and lists and dictionaries of them"
        )


def holds_a_definition(value: object) -> bool:
    """Whether the value contains a definition, even if the rest is invalid."""
    if isinstance(value, Mapping):
        return any(holds_a_definition(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return any(holds_a_definition(part) for part in value)
    return isinstance(value, (TimerArgs, GroupedBenchmark))


def _label_of(key: object, above: Label) -> Label:
    parts = () if key is None else key if isinstance(key, tuple) else (key,)
    if not all(isinstance(part, str) and part.strip() for part in parts):
        raise DefinitionError(
            f"{_place(above)} has the label {key!r}; a label must be a str or a tuple of them, "
            "and not empty"
        )
    return parts


def _place(label: Label) -> str:
    return f"the suite at {' / '.join(label)!r}" if label else "the suite"


def materialize(suite: Suite, *, facts: EnvironmentFacts = NOTHING_KNOWN) -> tuple[Case, ...]:
    """Return all cases of a suite; a case to be skipped has the reason in `skip`.

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
    """A case with the conditions under which it is skipped."""

    case: Case
    skip: tuple[SkipCondition, ...] = ()


def expand(suite: Suite) -> tuple[ConditionalCase, ...]:
    """Return all cases of a suite, before anything is known about the environment."""
    cases: dict[str, ConditionalCase] = {}
    for label, definition in label_definitions(suite):
        skip = check_skips(definition.skip)
        for case in _cases_of(label, definition):
            if case.id in cases:
                raise DefinitionError(f"the suite has the same case twice: {case.title}")
            cases[case.id] = ConditionalCase(case=case, skip=skip)
    return tuple(cases.values())


def judge_skips(cases: Iterable[ConditionalCase], facts: EnvironmentFacts) -> tuple[Case, ...]:
    """Return the cases, each with its reason to be skipped in this environment, if any."""
    return tuple(replace(each.case, skip=skip_reason(each.skip, facts)) for each in cases)


def features_asked(cases: Iterable[ConditionalCase]) -> frozenset[str]:
    """Return the features of torch that skip conditions depend on, for EnvironmentFacts."""
    return frozenset(
        condition.missing for each in cases for condition in each.skip if condition.missing
    )


def _cases_of(label: Label, definition: Definition) -> Iterator[Case]:
    if isinstance(definition, GroupedBenchmark):
        yield from _expand_group(label, definition)
        return
    assert isinstance(definition.language, Language), "TimerArgs has converted the name"
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
    """Replace an empty setup: by `pass` in Python, by nothing in C++."""
    if language is Language.PYTHON:
        return setup or "pass"
    return "" if setup == "pass" else setup


def _ways(benchmark: GroupedBenchmark) -> list[tuple[Language, Runtime]]:
    """Return the combinations of language and runtime that the definition asks for.

    A scripted model also runs in C++ if there is a C++ setup to make its inputs, even without a
    C++ statement or module.
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
