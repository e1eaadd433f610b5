"""Every mistake that a user can make has its class here, derived from the fitting builtin.

All of them are `TorchmarkError`, and every message says what is wrong, where, and what to do.
An exception raised by the user's own statement is not among them: it travels as it is.
"""

from __future__ import annotations

from typing import ClassVar


class TorchmarkError(Exception):
    """What torchmark raises when it cannot do what was asked."""

    run_id: str = ""
    """The run that it cut short, if one had begun: the store has what was measured until then."""

    lacking: str = ""
    """What the environment under test does not have, in a sentence, if that is why: a case for
    which it is so is skipped and has not failed."""


class RunInterruptedError(KeyboardInterrupt):
    """Ctrl-C in the middle of a run; the store has what was measured until then."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was interrupted")
        self.run_id = run_id


class TerminatedError(KeyboardInterrupt):
    """SIGTERM or SIGHUP: what a cancelled job or a closed terminal sends. It ends all as Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(f"terminated by signal {number}")
        self.number = number


class InvalidArgumentError(TorchmarkError, ValueError):
    """A number, a name or a combination of arguments that means nothing here."""


class UnknownLanguageError(InvalidArgumentError):
    """A language that Timer does not speak."""


class StatementSyntaxError(TorchmarkError, SyntaxError):
    """A statement or setup that does not compile; carries the user's own line and column."""


class MissingTorchError(TorchmarkError, ImportError):
    """torch cannot be imported by the interpreter that runs torchmark."""


class NotSupportedError(TorchmarkError, NotImplementedError):
    """A part of torch.utils.benchmark's interface that this version does not have."""


class EmptyMeasurementError(TorchmarkError, ValueError):
    """A statistic was asked of a measurement, or a table of a list, that has no results."""


class InvalidMeasurementError(TorchmarkError, ValueError):
    """Numbers that cannot be the result of a measurement: NaN, infinite, negative."""


class MeasurementFileError(TorchmarkError, ValueError):
    """Text that should hold a measurement and does not."""


class RecordFileError(TorchmarkError, ValueError):
    """Text that should hold a case, a run or the result of a case and does not."""


class NotSerialisableError(TorchmarkError, TypeError):
    """A payload that would not survive the way to JSON and back."""


class NotTransferableError(TorchmarkError, ValueError):
    """A global that cannot be copied into the process that counts instructions."""


class UnknownRowError(InvalidArgumentError):
    """A baseline row that the table does not have."""


class FuzzerDefinitionError(InvalidArgumentError, AssertionError):
    """A fuzzed parameter or tensor that cannot be drawn as it is described.

    torch's checks raise an AssertionError.
    """


class MixedCountsError(InvalidArgumentError, AssertionError):
    """Inclusive and exclusive counts in one sum; torch's check raises an AssertionError."""


class ImpossibleConstraintError(TorchmarkError, ValueError):
    """No draw satisfied all the constraints of a Fuzzer."""


class CallgrindFileError(TorchmarkError, ValueError):
    """Text that should hold callgrind's counts and does not: damaged, cut, empty."""


class StacksFileError(TorchmarkError, ValueError):
    """Text that should hold folded stacks and does not; the message has the line."""


class OutputFileError(TorchmarkError, OSError):
    """A file that results are written to takes no more of them: a full disk."""


class MissingToolError(TorchmarkError, FileNotFoundError):
    """A program that is needed is not installed; the message names its package."""


class ProfilerError(TorchmarkError, RuntimeError):
    """The profiler that looks into a running loop gave no stacks; carries what it said."""


class AttachDeniedError(ProfilerError, PermissionError):
    """The profiler may not look into the process; the message says how to allow it."""


class ImportFailedError(TorchmarkError, ImportError):
    """A module that `--import` names, which an environment cannot import."""


class ZygoteError(TorchmarkError, RuntimeError):
    """The process that forks the cases could not start, or died; carries its last words."""


class CaseFailedError(TorchmarkError, RuntimeError):
    """A case did not come to its end in the process that ran it; the next one is not affected."""

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        traceback: str = "",
        builtin: str = "",
        stdout: str = "",
        stderr: str = "",
        lacking: str = "",
    ) -> None:
        super().__init__(message)
        self.lacking = lacking or (message if kind == "unsupported" else "")
        self.kind = kind
        """raised, crashed, exited, memory, timeout, lost, or unsupported: it cannot be done here,
        and nothing is broken."""

        self.traceback = traceback
        """The traceback of what it raised, from the user's own line on; empty if it did not."""

        self.builtin = builtin
        """The class of what it raised, if that is one of Python's own: "ValueError"."""

        self.stdout = stdout
        """What the case had printed by then."""

        self.stderr = stderr
        """What the case had written to stderr by then."""


class CaseTimeoutError(CaseFailedError, TimeoutError):
    """A case was stopped at its time limit."""


class CompilerMissingError(TorchmarkError, FileNotFoundError):
    """There is no C++ compiler; the message says how to get one."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lacking = message


class LibtorchMissingError(CompilerMissingError):
    """A torch without its headers or libraries for C++; the message says how to get them."""


class CompileError(TorchmarkError, RuntimeError):
    """A C++ statement does not compile; the message has the user's own line."""

    def __init__(self, message: str, *, lacking: str = "") -> None:
        super().__init__(message)
        self.lacking = lacking


_AROUND = 100
"""Characters of a text that a message shows on either side of the place that it points at."""

_ON_ONE_LINE = dict.fromkeys([*range(32), 127, *range(128, 160)], " ")
"""Control characters as blanks, so that the caret stays in its place."""


class MarkedTextError(InvalidArgumentError):
    """A short text of a small language that cannot be read; the message points at the place."""

    remedy: ClassVar[str]
    """How such a text is written."""

    def __init__(self, message: str, *, text: str, position: int) -> None:
        start = max(0, position - _AROUND)
        line = text[start : position + _AROUND].translate(_ON_ONE_LINE)
        before = "…" if start else ""
        after = "…" if position + _AROUND < len(text) else ""
        caret = " " * (len(before) + position - start) + "^"
        super().__init__(f"{message}\n    {before}{line}{after}\n    {caret}\n{self.remedy}")
        self.text = text
        self.position = position
        """Counted in characters from 0; the length of the text if something is missing there."""


class SignatureError(MarkedTextError):
    """A signature that cannot be read."""

    remedy = 'Write it like "f(x, w) -> y", "f(x) -> y, z" or "f(x) -> None".'


class PatternError(MarkedTextError):
    """A pattern of `-k` that cannot be read."""

    remedy = 'Write words, "and", "or", "not" and parentheses: "add not (C++ or script)".'


class DefinitionError(InvalidArgumentError):
    """A benchmark that is defined so that nothing, or not what was meant, could be measured."""


class KnownBreaksError(DefinitionError):
    """A table of known breaks with an entry that cannot be read, or says nothing."""


class SuiteNotFoundError(InvalidArgumentError):
    """No suite, file, folder or module goes by the name that was given."""


class UnknownCaseError(InvalidArgumentError, LookupError):
    """No case of the suites has the words that were given."""


class AmbiguousCaseError(InvalidArgumentError, LookupError):
    """Several cases have the words that were given, where one is meant."""


class SuiteFileError(TorchmarkError, ImportError):
    """A file of a suite that gives no definitions: it does not compile, raises or has none.

    One file costs its own definitions alone: whoever loads several gets these as values.
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str,
        line: int | None = None,
        text: str = "",
        column: int | None = None,
    ) -> None:
        where = file if line is None else f"{file}, line {line}"
        margin = len(text) - len(text.lstrip())
        shown = f"\n    {text.strip()}" if text.strip() else ""
        if shown and column is not None:
            shown += f"\n    {' ' * max(0, column - 1 - margin)}^"
        super().__init__(f"{where}: {reason}{shown}")
        self.file = file
        """Its path as it was found, or the name of the module."""

        self.line = line
        """The last line of that file that was on its way; None if no line is at fault."""

        self.text = text
        """That line, as it stands in the file."""

        self.column = column
        """Where in that line, counted from 1; None if that is not known."""

        self.reason = reason
        """What is wrong, without the place."""


class StoreError(TorchmarkError):
    """The store of results cannot do what was asked; the message names it and the remedy."""


class StoreUnavailableError(StoreError, OSError):
    """The store cannot be opened, written or reached: permissions, a full disk, a server."""


class DamagedStoreError(StoreError, ValueError):
    """What should be a store is something else, or parts of it can no longer be read."""


class NewerStoreError(StoreError):
    """A store that a newer torchmark has made."""


class UnknownStoreError(InvalidArgumentError, FileNotFoundError):
    """There is no store at the place that was named."""


class UnknownRunError(InvalidArgumentError, LookupError):
    """No run of the store has this id, prefix or tag."""


class AmbiguousRunError(InvalidArgumentError, LookupError):
    """Several runs of the store have this prefix or tag."""


class RunInUseError(InvalidArgumentError):
    """A run that another process carries out now."""


class SettingsError(InvalidArgumentError):
    """A file of settings that cannot be read, or has an unknown key or a wrong value."""


class BackportError(TorchmarkError, OSError):
    """The copy of the Timer cannot be put into an environment's torch, or taken out of it."""


class ForeignBackportError(BackportError, FileExistsError):
    """Something that torchmark has not written stands where the copy of the Timer would be."""


class TraceFileError(TorchmarkError, ValueError):
    """A file that should hold operator calls and does not; the message has file and line."""


class NewerTraceError(TraceFileError):
    """A trace that a newer torchmark has written."""


class TraceNotFoundError(InvalidArgumentError, FileNotFoundError):
    """There is no trace at the path that was named."""


class TraceWriteError(TorchmarkError, OSError):
    """A trace that cannot be written: no such folder, a full disk, permissions."""


class CaptureError(TorchmarkError, RuntimeError):
    """A capture that cannot begin: another one is running, or it was used already."""


class ScriptNotFoundError(InvalidArgumentError, FileNotFoundError):
    """A script or a module that somebody wants to be run, and that is not there."""


class NotATraceError(InvalidArgumentError, FileExistsError):
    """A file that is not a trace stands where one would be written."""
