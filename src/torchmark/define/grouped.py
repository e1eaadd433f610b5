"""Definitions: GroupedBenchmark (one computation, run in several ways) and TimerArgs.

Users call the three constructors of GroupedBenchmark by the names GroupedStmts, GroupedModules and
GroupedVariants. TimerArgs has the arguments of Timer; nothing is derived from it. Definitions are
text and plain values, so this module does not need torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from torchmark.arguments import check_count
from torchmark.define.params import Grid, Value, check_grid
from torchmark.define.signature import TENSOR, Signature
from torchmark.define.skips import SkipCondition, check_skips
from torchmark.define.snippets import cpp_call, py_call
from torchmark.define.variants import parse_block, variants_of
from torchmark.errors import DefinitionError
from torchmark.model.case import Language, find_language, trimmed


@dataclass(frozen=True, slots=True)
class TimerArgs:
    """One statement, with the arguments of Timer; several numbers of threads make several cases.

    >>> TimerArgs("y = x + 1", setup="x = torch.ones(4)", num_threads=(1, 2)).num_threads
    (1, 2)
    """

    stmt: str
    """The statement that is measured."""

    setup: str = "pass"
    """Code that runs once before."""

    global_setup: str = ""
    """C++ only: code at the top of the file."""

    num_threads: int | tuple[int, ...] = 1
    """Numbers of threads that torch may use: one number or several."""

    language: Language | str = Language.PYTHON
    """A Language, or "py" or "cpp" as for Timer."""

    skip: SkipCondition | tuple[SkipCondition, ...] | None = None
    """When to skip it: one or several results of skip_if."""

    def __post_init__(self) -> None:
        for name in ("stmt", "setup", "global_setup"):
            object.__setattr__(self, name, trimmed(getattr(self, name)))
        given = self.language.lower() if isinstance(self.language, str) else self.language
        object.__setattr__(self, "language", find_language(given))
        threads = check_threads(self.num_threads)
        object.__setattr__(self, "num_threads", threads[0] if len(threads) == 1 else threads)
        object.__setattr__(self, "skip", check_skips(self.skip))
        if self.global_setup and self.language is Language.PYTHON:
            raise DefinitionError("global_setup is for C++ only; put Python code into setup")


@dataclass(frozen=True, slots=True)
class GroupedSetup:
    """Code that runs before the statements of a group, by language."""

    py_setup: str = ""
    """Python: makes the variables that the statement reads."""

    cpp_setup: str = ""
    """C++: makes the same, as local variables."""

    global_setup: str = ""
    """C++: includes, helper functions and types, at the top of the file."""

    def __post_init__(self) -> None:
        for name in ("py_setup", "cpp_setup", "global_setup"):
            object.__setattr__(self, name, trimmed(getattr(self, name)))


_NO_SETUP = GroupedSetup()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedBenchmark:
    """A computation in Python, C++ or both, with the variants to measure.

    >>> benchmark = GroupedStmts("y = x * w", "auto y = x * w;", signature="f(x, w) -> y")
    >>> benchmark.py_fwd_stmt, benchmark.cpp_fwd_stmt, benchmark.num_threads
    ('y = x * w', 'auto y = x * w;', (1,))
    """

    py_fwd_stmt: str | None
    cpp_fwd_stmt: str | None
    """The forward pass in each language; None if the language is not used."""

    setup: GroupedSetup = _NO_SETUP

    py_model_setup: str | None = None
    cpp_model_setup: str | None = None
    """Code that defines `model` in each language; None for a definition with statements."""

    signature: Signature | None = None
    """What the forward pass reads and computes; None if no variant needs it."""

    torchscript: bool = False
    """Whether to measure the scripted form too."""

    losses: tuple[str, ...] = ()
    """Outputs whose sum is differentiated; empty without a backward pass."""

    compile: bool = False
    """Whether to measure the form compiled by torch.compile too."""

    num_threads: tuple[int, ...] = (1,)
    """Numbers of threads that torch may use."""

    params: Grid = ()
    """Names and their values; every combination is measured."""

    skip: tuple[SkipCondition, ...] = ()
    """Skipped if any of these conditions holds."""

    def __post_init__(self) -> None:
        if not isinstance(self.setup, GroupedSetup):
            raise DefinitionError(
                "setup must be a GroupedSetup, such as GroupedSetup('x = torch.ones(4)'), not a "
                f"{type(self.setup).__name__}"
            )

    @property
    def autograd(self) -> bool:
        """Whether to measure the backward pass too."""
        return bool(self.losses)

    @classmethod
    def init_from_stmts(
        cls,
        py_stmt: str | None = None,
        cpp_stmt: str | None = None,
        setup: GroupedSetup = _NO_SETUP,
        signature: str | None = None,
        torchscript: bool = False,
        autograd: bool | str = False,
        num_threads: int | Iterable[int] = 1,
        *,
        compile: bool = False,  # noqa: A002 - named like torch.compile
        params: Mapping[str, Iterable[Value]] | None = None,
        skip: SkipCondition | Iterable[SkipCondition] | None = None,
    ) -> GroupedBenchmark:
        """Define a benchmark by its statements. `autograd` may name the output to differentiate.

        TorchScript, torch.compile and autograd need the signature, which names inputs and outputs.
        """
        if py_stmt is None and cpp_stmt is None:
            raise DefinitionError("GroupedStmts needs py_stmt, cpp_stmt or both")
        if py_stmt is None and (torchscript or compile):
            raise DefinitionError(
                "torchscript and compile need py_stmt, because they script and compile it"
            )
        parsed = _parse(signature, torchscript=torchscript, compile=compile, autograd=autograd)
        return cls(
            py_fwd_stmt=None if py_stmt is None else trimmed(py_stmt),
            cpp_fwd_stmt=None if cpp_stmt is None else trimmed(cpp_stmt),
            setup=setup,
            signature=parsed,
            torchscript=torchscript,
            losses=_losses(parsed, autograd),
            compile=compile,
            num_threads=check_threads(num_threads),
            params=check_grid(params),
            skip=check_skips(skip),
        )

    @classmethod
    def init_from_model(
        cls,
        py_model_setup: str | None = None,
        cpp_model_setup: str | None = None,
        setup: GroupedSetup = _NO_SETUP,
        signature: str | None = None,
        torchscript: bool = False,
        autograd: bool | str = False,
        num_threads: int | Iterable[int] = 1,
        *,
        compile: bool = False,  # noqa: A002 - named like torch.compile
        params: Mapping[str, Iterable[Value]] | None = None,
        skip: SkipCondition | Iterable[SkipCondition] | None = None,
    ) -> GroupedBenchmark:
        """Define a benchmark by code that defines `model`; the signature says how to call it.

        In C++, `model` is a module holder such as torch::nn::Linear; its forward is called.
        """
        if signature is None:
            raise DefinitionError(
                'GroupedModules needs a signature, such as "f(x) -> y", to know how to call model'
            )
        _check_model(py_model_setup, cpp_model_setup, needs_python=torchscript or compile)
        parsed = Signature.parse(signature)
        calls = cls.init_from_stmts(
            None if py_model_setup is None else py_call(parsed, "model"),
            None if cpp_model_setup is None else cpp_call(parsed),
            setup,
            signature,
            torchscript,
            autograd,
            num_threads,
            compile=compile,
            params=params,
            skip=skip,
        )
        return replace(
            calls,
            py_model_setup=None if py_model_setup is None else trimmed(py_model_setup),
            cpp_model_setup=None if cpp_model_setup is None else trimmed(cpp_model_setup),
        )

    @classmethod
    def init_from_variants(
        cls,
        py_block: str = "",
        cpp_block: str = "",
        num_threads: int | Iterable[int] = 1,
        *,
        params: Mapping[str, Iterable[Value]] | None = None,
        skip: SkipCondition | Iterable[SkipCondition] | None = None,
    ) -> dict[tuple[str, ...], GroupedBenchmark]:
        """Return a benchmark for each line of the blocks; see torchmark.define.variants."""
        python = parse_block(py_block, Language.PYTHON)
        cpp = parse_block(cpp_block, Language.CPP)
        setup = GroupedSetup(python.setup, cpp.setup, cpp.global_setup)
        threads = check_threads(num_threads)
        grid, conditions = check_grid(params), check_skips(skip)
        variants = {
            label: cls(
                py_fwd_stmt=py_stmt,
                cpp_fwd_stmt=cpp_stmt,
                setup=setup,
                num_threads=threads,
                params=grid,
                skip=conditions,
            )
            for label, py_stmt, cpp_stmt in variants_of(python, cpp)
        }
        if not variants:
            raise DefinitionError("GroupedVariants has no statement in any of its blocks")
        return variants


GroupedStmts = GroupedBenchmark.init_from_stmts
GroupedModules = GroupedBenchmark.init_from_model
GroupedVariants = GroupedBenchmark.init_from_variants


def _parse(signature: str | None, **needs: object) -> Signature | None:
    if signature is not None:
        return Signature.parse(signature)
    for name, is_wanted in needs.items():
        if is_wanted:
            raise DefinitionError(f'{name} needs a signature, such as "f(x, w) -> y"')
    return None


def _losses(signature: Signature | None, autograd: bool | str) -> tuple[str, ...]:
    """Return the outputs to differentiate: the one that `autograd` names, or all tensors."""
    if not autograd:
        return ()
    assert signature is not None, "_parse has checked that autograd comes with a signature"
    tensors = tuple(output.name for output in signature.outputs if output.type == TENSOR)
    if not tensors:
        raise DefinitionError(
            f'autograd needs a tensor to differentiate; "{signature}" has none as its output'
        )
    if autograd is True:
        return tensors
    if autograd not in tensors:
        raise DefinitionError(
            f"autograd={autograd!r} is not a tensor among the outputs of the signature: "
            f"{', '.join(tensors)}"
        )
    return (autograd,)


def _check_model(python: str | None, cpp: str | None, *, needs_python: bool) -> None:
    if python is None and cpp is None:
        raise DefinitionError("GroupedModules needs py_model_setup, cpp_model_setup or both")
    if python is None and needs_python:
        raise DefinitionError(
            "torchscript and compile need py_model_setup, because they script and compile its model"
        )
    for name, source in (("py_model_setup", python), ("cpp_model_setup", cpp)):
        if source is not None and "model" not in source:
            raise DefinitionError(f"{name} must define `model`, got {source.strip()!r}")


def check_threads(num_threads: int | Iterable[int]) -> tuple[int, ...]:
    """Return one or several numbers of threads as a tuple; duplicates are an error."""
    given = tuple(num_threads) if hasattr(num_threads, "__iter__") else (num_threads,)
    numbers = tuple(check_count("num_threads", number) for number in given)
    if not numbers or len(set(numbers)) < len(numbers):
        raise DefinitionError(
            f"num_threads needs at least one number and no duplicates, got {num_threads!r}"
        )
    return numbers
