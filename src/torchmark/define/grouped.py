"""Definitions: GroupedBenchmark, one for all the ways to run the same computation, and TimerArgs.

The three makers of GroupedBenchmark are what people call, by the names GroupedStmts, GroupedModules
and GroupedVariants. TimerArgs is what Timer takes, and nothing derived from it. A definition is
text and plain values; nothing here needs torch.
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


@dataclass(frozen=True, slots=True)
class GroupedSetup:
    """What runs before the statements of a group, by language."""

    py_setup: str = ""
    """Python: makes what the statement reads."""

    cpp_setup: str = ""
    """C++: the same, as local variables."""

    global_setup: str = ""
    """C++: includes, helper functions and types, at the top of the file."""

    def __post_init__(self) -> None:
        for name in ("py_setup", "cpp_setup", "global_setup"):
            object.__setattr__(self, name, trimmed(getattr(self, name)))


_NO_SETUP = GroupedSetup()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedBenchmark:
    """A computation in Python, in C++ or in both, and which variants of it are wanted.

    >>> benchmark = GroupedStmts("y = x * w", "auto y = x * w;", signature="f(x, w) -> y")
    >>> benchmark.py_fwd_stmt, benchmark.cpp_fwd_stmt, benchmark.num_threads
    ('y = x * w', 'auto y = x * w;', (1,))
    """

    py_fwd_stmt: str | None
    cpp_fwd_stmt: str | None
    """The forward pass in either language; None if there is none."""

    setup: GroupedSetup = _NO_SETUP

    py_model_setup: str | None = None
    cpp_model_setup: str | None = None
    """Defines `model` in either language; None for a definition from statements."""

    signature: Signature | None = None
    """What the forward pass reads and makes; None if nobody needs to know."""

    torchscript: bool = False
    """Whether the scripted form is run too."""

    losses: tuple[str, ...] = ()
    """The outputs whose sum is differentiated; empty if there is no backward pass."""

    compile: bool = False
    """Whether the form that torch.compile makes is run too."""

    num_threads: tuple[int, ...] = (1,)
    """Numbers of threads that torch may use."""

    params: Grid = ()
    """Names and their values; every combination is run."""

    skip: tuple[SkipCondition, ...] = ()
    """Where it is left out: any of these suffices."""

    def __post_init__(self) -> None:
        if not isinstance(self.setup, GroupedSetup):
            raise DefinitionError(
                "setup is a GroupedSetup, such as GroupedSetup('x = torch.ones(4)'); got a "
                f"{type(self.setup).__name__}"
            )

    @property
    def autograd(self) -> bool:
        """Whether the backward pass is run too."""
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
        """Statements as they are timed. `autograd` may name the output to differentiate.

        TorchScript, torch.compile and autograd need the signature: it says what is read and made.
        """
        if py_stmt is None and cpp_stmt is None:
            raise DefinitionError("GroupedStmts needs py_stmt, cpp_stmt or both")
        if py_stmt is None and (torchscript or compile):
            raise DefinitionError(
                "torchscript and compile need py_stmt: that is what is scripted and compiled"
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
        """Code that defines `model`; the statement that calls it follows from the signature.

        In C++ `model` is a module holder such as torch::nn::Linear, whose forward is called.
        """
        if signature is None:
            raise DefinitionError(
                'GroupedModules needs a signature, such as "f(x) -> y": it says how to call model'
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
        """A benchmark for each line of the blocks, by label; see torchmark.define.variants."""
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
    """What is summed and differentiated: the output that `autograd` names, or all tensors."""
    if not autograd:
        return ()
    assert signature is not None, "whoever asks for autograd has been asked for a signature"
    tensors = tuple(output.name for output in signature.outputs if output.type == TENSOR)
    if not tensors:
        raise DefinitionError(f'autograd needs a tensor to differentiate; "{signature}" gives none')
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
            "torchscript and compile need py_model_setup: that is what is scripted and compiled"
        )
    for name, source in (("py_model_setup", python), ("cpp_model_setup", cpp)):
        if source is not None and "model" not in source:
            raise DefinitionError(f"{name} must define `model`, got {source.strip()!r}")


def check_threads(num_threads: int | Iterable[int]) -> tuple[int, ...]:
    """One number of threads or several, as a tuple without repetitions."""
    given = tuple(num_threads) if hasattr(num_threads, "__iter__") else (num_threads,)
    numbers = tuple(check_count("num_threads", number) for number in given)
    if not numbers or len(set(numbers)) < len(numbers):
        raise DefinitionError(
            f"num_threads needs at least one number and none twice, got {num_threads!r}"
        )
    return numbers
