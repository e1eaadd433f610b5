"""Turns a statement and its setup, given as text, into a timed loop in Python.

The setup and the statement share one function, as in `timeit`, so that names defined by the setup
are fast local variables of the loop. The parts are joined as syntax trees, not as text: multi-line
strings stay the same, and all line numbers are the user's. The function is a generator, so that
one setup serves many blocks.
"""

import ast
import gc
import itertools
import keyword
import linecache
import textwrap
import time
from types import CodeType
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional, Tuple

Clock = Callable[[], float]

SOURCE_PREFIX = "<torchmark snippet"
"""Prefix of the file names of user snippets."""

_LOOP = """
def _torchmark_blocks(_torchmark_clock, _torchmark_cpu_clock, _torchmark_repeat):
    SETUP
    _torchmark_number = yield
    while True:
        _torchmark_runs = _torchmark_repeat(None, _torchmark_number)
        _torchmark_cpu = _torchmark_cpu_clock()
        _torchmark_start = _torchmark_clock()
        for _torchmark_run in _torchmark_runs:
            STATEMENT
        _torchmark_stop = _torchmark_clock()
        _torchmark_number = yield (
            _torchmark_stop - _torchmark_start,
            _torchmark_cpu_clock() - _torchmark_cpu,
        )
"""

_serial = itertools.count(1)


class Block(NamedTuple):
    """One block: the statement run `number` times between two readings of the clock."""

    wall: float
    """Seconds of wall-clock time."""

    cpu: float
    """Seconds of CPU time of the thread that ran it."""


class Place(NamedTuple):
    """The position of a snippet's line in the user's code."""

    part: str
    """The setup, the statement or the global setup."""

    line: int
    """Counted from 1 in that part."""


class SnippetSyntaxError(Exception):
    """The setup or the statement does not compile; `error` has the user's line and column."""

    def __init__(self, part: str, error: SyntaxError) -> None:
        super().__init__(part, error)
        self.part = part
        self.error = error


class Blocks:
    """A running loop whose setup has run: every call of `run` is one block."""

    def __init__(self, generator: Generator[Any, int, Any], names: Dict[str, Any]) -> None:
        self._generator = generator
        self._globals = names
        with _stop_iteration_as_it_is():
            next(generator)

    def run(self, number: int) -> Block:
        with _stop_iteration_as_it_is():
            return Block(*self._generator.send(number))

    def held(self) -> List[object]:
        """Return objects that lead to everything the statement uses: its variables and globals."""
        return [self._generator, self._globals]

    def close(self) -> None:
        self._generator.close()


class PythonLoop:
    """A loop with the constructor and `timeit` of `timeit.Timer`, and blocks that share a setup."""

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        timer: Clock = time.perf_counter,
        globals: Optional[Dict[str, Any]] = None,  # noqa: A002 - the name in timeit.Timer
    ) -> None:
        self._clock = timer
        parts = parse_parts(stmt, setup)
        template = ast.parse(_LOOP)
        function = template.body[0]
        assert isinstance(function, ast.FunctionDef)
        splice(function.body, "SETUP", parts.setup)
        loop = function.body[-1]
        assert isinstance(loop, ast.While)
        for_statement = next(node for node in loop.body if isinstance(node, ast.For))
        splice(for_statement.body, "STATEMENT", parts.stmt)
        made: Dict[str, Any] = {}
        self._globals = {} if globals is None else globals
        execute(compile_parts(template, parts), self._globals, made)
        self._make: Callable[..., Generator[Any, int, Any]] = made["_torchmark_blocks"]

    def blocks(self) -> Blocks:
        """Run the setup once and return a loop that is ready to run blocks."""
        return Blocks(self._make(self._clock, time.thread_time, itertools.repeat), self._globals)

    def timeit(self, number: int) -> float:
        """Run the setup, then the statement `number` times; return the seconds for all runs."""
        with garbage_collection_off():  # including the setup, which may enable it, as in timeit
            blocks = self.blocks()
            try:
                return blocks.run(number).wall
            finally:
                blocks.close()


class _stop_iteration_as_it_is:  # noqa: N801 - reads as a statement in `with`
    """Undoes Python's conversion of a StopIteration that leaves a generator to a RuntimeError."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: Optional[BaseException], frames: object) -> None:
        cause = getattr(error, "__cause__", None)
        was_turned = str(error) == "generator raised StopIteration"
        if was_turned and isinstance(error, RuntimeError) and isinstance(cause, StopIteration):
            raise cause


class garbage_collection_off:  # noqa: N801 - reads as a statement in `with`
    """Turns the garbage collector off inside the block and restores its state afterwards."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()


def run_globally(source: str, namespace: Dict[str, Any]) -> None:
    """Run a snippet as module code, so that its names are globals of every statement."""
    text = _as_lines(source)
    _parse("global setup", text)
    filename = "{} {}+global>".format(SOURCE_PREFIX, next(_serial))
    _remember(filename, text)
    execute(compile(text, filename, "exec", dont_inherit=True), namespace)


def execute(
    code: CodeType, namespace: Dict[str, Any], names: Optional[Dict[str, Any]] = None
) -> None:
    """Run code that contains the user's parts; `names` gets what it defines, else the namespace.

    Classes and functions take their module from the name in their globals, and TorchScript,
    dataclasses and others look it up. Other code gets no such name, because another key in the
    dictionary can add some instructions to each lookup of the statement's names.
    """
    if any(_takes_a_module(constant) for constant in code.co_consts):
        namespace.setdefault("__name__", "__main__")
    # Running the user's code is the purpose.
    exec(code, namespace, namespace if names is None else names)  # noqa: S102


def _takes_a_module(constant: object) -> bool:
    """Whether it is the code of a class or a function, as opposed to a comprehension."""
    if not isinstance(constant, CodeType):
        return False
    return constant.co_name == "<lambda>" or not constant.co_name.startswith("<")


def place_of(filename: str, line: int) -> Optional[Place]:
    """Return the user's line for a line of a traceback; None for a line of another file."""
    if not filename.startswith(SOURCE_PREFIX):
        return None
    origin = filename.rsplit("+", 1)[1].rstrip(">")
    if origin == "global":
        return Place("global setup", line)
    setup_lines = int(origin)
    if line <= setup_lines:
        return Place("setup", line)
    return Place("statement", line - setup_lines)


class Parts(NamedTuple):
    """The user's code as syntax trees with the user's line numbers."""

    setup: List[ast.stmt]
    stmt: List[ast.stmt]

    text: str
    """The setup, followed by the statement."""

    filename: str
    """The name shown in tracebacks; `place_of` reads from it where the statement starts."""


def parse_parts(stmt: str, setup: str) -> Parts:
    """Parse both parts for use in one piece of code; empty parts become `pass`."""
    setup_text, stmt_text = _as_lines(setup), _as_lines(stmt)
    setup_lines = setup_text.count("\n")
    setup_body = _parse("setup", setup_text)
    stmt_body = _parse("statement", stmt_text)
    for node in stmt_body:
        ast.increment_lineno(node, setup_lines)
    return Parts(
        setup=setup_body or ast.parse("pass").body,
        stmt=stmt_body or ast.parse("pass").body,
        text=setup_text + stmt_text,
        filename="{} {}+{}>".format(SOURCE_PREFIX, next(_serial), setup_lines),
    )


def compile_parts(module: ast.Module, parts: Parts) -> CodeType:
    """Compile a module that contains the parts, so that tracebacks show the user's lines."""
    try:
        code = compile(module, parts.filename, "exec")
    except SyntaxError as error:  # only the combination of the two parts is wrong
        raise _in_its_part(error, parts.filename, parts.text) from None
    _remember(parts.filename, parts.text)
    return code


def _remember(filename: str, text: str) -> None:
    """Let tracebacks show the lines of a file that does not exist."""
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)


def _as_lines(source: str) -> str:
    text = textwrap.dedent(source)
    return text if text.endswith("\n") else text + "\n"


def _parse(part: str, text: str) -> List[ast.stmt]:
    """Parse one part and check it as module code: `return` and `yield` are refused."""
    try:
        # compile() finds errors that the parser does not, such as `break` outside of a loop.
        compile(text, "<{}>".format(part), "exec", dont_inherit=True)
        return ast.parse(text).body
    except SyntaxError as error:
        if error.text is None and error.lineno is not None:
            # Errors found after parsing have no text of their line.
            error.text = text.splitlines()[error.lineno - 1]
        raise SnippetSyntaxError(part, error) from None
    except ValueError as error:  # a NUL byte
        raise SnippetSyntaxError(part, SyntaxError(str(error))) from None


def _in_its_part(error: SyntaxError, filename: str, text: str) -> SnippetSyntaxError:
    line = error.lineno or 1
    place = place_of(filename, line)
    assert place is not None
    error.text = text.splitlines()[line - 1]
    error.lineno = place.line
    if getattr(error, "end_lineno", None) is not None:  # new in Python 3.10
        error.end_lineno += place.line - line  # type: ignore[operator]
    return SnippetSyntaxError(place.part, error)


def splice(body: List[ast.stmt], marker: str, statements: List[ast.stmt]) -> None:
    """Insert the statements where a template has a line with only the marker's name."""
    for index, node in enumerate(body):
        place = node.value if isinstance(node, ast.Expr) else None
        if isinstance(place, ast.Name) and place.id == marker:
            body[index : index + 1] = statements
            return
    raise AssertionError("the loop has no place for the {}".format(marker))


def call_of(
    function: Callable[..., Any], arguments: Tuple[Any, ...], keywords: Dict[str, Any]
) -> Tuple[str, str, Dict[str, Any]]:
    """Setup, statement and globals that call `function` with its arguments as local variables."""
    names = ["_torchmark_argument_{}".format(index) for index in range(len(arguments))]
    values: Dict[str, Any] = dict(zip(names, arguments))
    passed = list(names)
    for index, (name, value) in enumerate(keywords.items()):
        variable = "_torchmark_keyword_{}".format(index)
        values[variable] = value
        is_plain = name.isidentifier() and not keyword.iskeyword(name)
        passed.append(("{}={}" if is_plain else "**{{{!r}: {}}}").format(name, variable))
    values["_torchmark_function"] = function
    setup = "\n".join("{0} = {0}_global".format(name) for name in values)
    statement = "_torchmark_function({})".format(", ".join(passed))
    return setup, statement, {name + "_global": value for name, value in values.items()}
