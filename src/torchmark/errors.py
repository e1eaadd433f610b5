"""The exceptions of torchmark: one class per mistake, each also a fitting builtin exception.

All of them are `TorchmarkError`. Their messages say what is wrong, where, and what to do.
An exception that the user's own statement raises is not wrapped in one of these.
"""

from __future__ import annotations

from typing import ClassVar


class TorchmarkError(Exception):
    """Base class of the errors that torchmark raises."""

    run_id: str = ""
    """The run that the error ended, if one had started; the store keeps its results so far."""

    lacking: str = ""
    """A sentence that says what the environment under test lacks, if that is the cause. The case
    is then skipped instead of failed."""


class RunInterruptedError(KeyboardInterrupt):
    """A run was interrupted with Ctrl-C; the store keeps its results so far."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was interrupted")
        self.run_id = run_id


class TerminatedError(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived (a cancelled job, a closed terminal); handled like Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(f"terminated by signal {number}")
        self.number = number


class InvalidArgumentError(TorchmarkError, ValueError):
    """An argument, or a combination of arguments, is not valid."""


class UnknownLanguageError(InvalidArgumentError):
    """The language of a statement is neither Python nor C++."""


class StatementSyntaxError(TorchmarkError, SyntaxError):
    """A statement or setup does not compile; has the line and column in the user's text."""


class MissingTorchError(TorchmarkError, ImportError):
    """The interpreter that runs torchmark cannot import torch."""


class NotSupportedError(TorchmarkError, NotImplementedError):
    """A part of the interface of torch.utils.benchmark that torchmark does not implement."""


class EmptyMeasurementError(TorchmarkError, ValueError):
    """A measurement or a table has no results to show."""


class InvalidMeasurementError(TorchmarkError, ValueError):
    """Numbers are not valid times: NaN, infinite or negative."""


class MeasurementFileError(TorchmarkError, ValueError):
    """Text is not a measurement in JSON."""


class RecordFileError(TorchmarkError, ValueError):
    """Text is not a case, a run or a result in JSON."""


class NotSerialisableError(TorchmarkError, TypeError):
    """A value cannot be written to JSON and read back without loss."""


class NotTransferableError(TorchmarkError, ValueError):
    """A global cannot be copied to the process that counts instructions."""


class UnknownRowError(InvalidArgumentError):
    """The table has no row with the name of the baseline."""


class FuzzerDefinitionError(InvalidArgumentError, AssertionError):
    """The definition of a fuzzed parameter or tensor is not valid.

    Also an AssertionError, because torch's checks raise that.
    """


class MixedCountsError(InvalidArgumentError, AssertionError):
    """Inclusive and exclusive counts were combined; also an AssertionError, as in torch."""


class ImpossibleConstraintError(TorchmarkError, ValueError):
    """A Fuzzer drew no values that satisfy all of its constraints."""


class CallgrindFileError(TorchmarkError, ValueError):
    """Text does not have callgrind's counts: it is damaged, cut off or empty."""


class StacksFileError(TorchmarkError, ValueError):
    """Text is not in the format of folded stacks; the message has the line."""


class OutputFileError(TorchmarkError, OSError):
    """Results cannot be written to a file, for example because the disk is full."""


class MissingToolError(TorchmarkError, FileNotFoundError):
    """A required program or package is not installed; the message says what to install."""


class ProfilerError(TorchmarkError, RuntimeError):
    """The sampling profiler gave no stacks; has the profiler's own message."""


class AttachDeniedError(ProfilerError, PermissionError):
    """The sampling profiler may not attach to the process; the message says how to allow it."""


class ImportFailedError(TorchmarkError, ImportError):
    """An environment cannot import a module that `--import` names."""


class ZygoteError(TorchmarkError, RuntimeError):
    """The process that forks the cases did not start, or died; has its last output."""


class CaseFailedError(TorchmarkError, RuntimeError):
    """A case failed in the process that ran it; other cases are not affected."""

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
        """raised, crashed, exited, memory, timeout, lost or unsupported. The last means that the
        environment cannot run the case, although nothing is broken."""

        self.traceback = traceback
        """The traceback from the user's own line on; empty if the case raised no exception."""

        self.builtin = builtin
        """The class of the exception if it is a builtin one, such as "ValueError"."""

        self.stdout = stdout
        """What the case had written to standard output."""

        self.stderr = stderr
        """What the case had written to standard error."""


class CaseTimeoutError(CaseFailedError, TimeoutError):
    """A case ran longer than its time limit and was stopped."""


class CompilerMissingError(TorchmarkError, FileNotFoundError):
    """No C++ compiler was found; the message says how to install one."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lacking = message


class LibtorchMissingError(CompilerMissingError):
    """torch lacks its C++ headers or libraries; the message says how to get them."""


class CompileError(TorchmarkError, RuntimeError):
    """A C++ statement does not compile; the message has the line in the user's text."""

    def __init__(self, message: str, *, lacking: str = "") -> None:
        super().__init__(message)
        self.lacking = lacking


_AROUND = 100
"""Characters that a message shows before and after the position of the mistake."""

_ON_ONE_LINE = dict.fromkeys([*range(32), 127, *range(128, 160)], " ")
"""Replaces control characters by blanks, so that the caret stays aligned."""


class MarkedTextError(InvalidArgumentError):
    """A signature or a pattern is not valid; the message marks the position."""

    remedy: ClassVar[str]
    """A sentence that shows valid syntax."""

    def __init__(self, message: str, *, text: str, position: int) -> None:
        start = max(0, position - _AROUND)
        line = text[start : position + _AROUND].translate(_ON_ONE_LINE)
        before = "…" if start else ""
        after = "…" if position + _AROUND < len(text) else ""
        caret = " " * (len(before) + position - start) + "^"
        super().__init__(f"{message}\n    {before}{line}{after}\n    {caret}\n{self.remedy}")
        self.text = text
        self.position = position
        """Index of the character, from 0; the length of the text if something is missing at
        its end."""


class SignatureError(MarkedTextError):
    """A signature is not valid."""

    remedy = 'Write it like "f(x, w) -> y", "f(x) -> y, z" or "f(x) -> None".'


class PatternError(MarkedTextError):
    """A pattern of `-k` is not valid."""

    remedy = 'Write words, "and", "or", "not" and parentheses: "add not (C++ or script)".'


class DefinitionError(InvalidArgumentError):
    """A benchmark definition is not valid."""


class KnownBreaksError(DefinitionError):
    """An entry in a table of known breaks is not valid."""


class SuiteNotFoundError(InvalidArgumentError):
    """No suite, file, directory or module has the given name."""


class UnknownCaseError(InvalidArgumentError, LookupError):
    """No case of the suites matches the given words."""


class AmbiguousCaseError(InvalidArgumentError, LookupError):
    """Several cases match the given words where exactly one is needed."""


class SuiteFileError(TorchmarkError, ImportError):
    """A suite file could not be loaded: it does not compile, raises, or defines nothing.

    Loading several files returns these errors as values, so the other files can still be used.
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
        """The path of the file, or the name of the module."""

        self.line = line
        """The innermost line of that file in the traceback; None if no line is at fault."""

        self.text = text
        """The source of that line."""

        self.column = column
        """The column in that line, from 1; None if it is not known."""

        self.reason = reason
        """What is wrong, without file and line."""


class StoreError(TorchmarkError):
    """An operation on the store of results failed; the message names the store and a remedy."""


class StoreUnavailableError(StoreError, OSError):
    """The store cannot be opened, written or reached: permissions, full disk, or server."""


class DamagedStoreError(StoreError, ValueError):
    """A file is not a store, or parts of the store cannot be read."""


class NewerStoreError(StoreError):
    """The store was written by a newer version of torchmark."""


class UnknownStoreError(InvalidArgumentError, FileNotFoundError):
    """The named store does not exist."""


class UnknownRunError(InvalidArgumentError, LookupError):
    """No run in the store has this ID, prefix or tag."""


class AmbiguousRunError(InvalidArgumentError, LookupError):
    """Several runs in the store have this prefix or tag."""


class RunInUseError(InvalidArgumentError):
    """Another process is still working on this run."""


class SettingsError(InvalidArgumentError):
    """A settings file cannot be read, or has an unknown key or an invalid value."""


class RepositoryError(TorchmarkError, RuntimeError):
    """A git repository cannot be used: there is none, it is shallow, or git failed."""


class UnknownRevisionError(InvalidArgumentError, LookupError):
    """The repository has no commit of this name."""


class BuildFailedError(TorchmarkError, RuntimeError):
    """A commit could not be built; has the last lines of the log, and where it is."""


class NoBaselineError(TorchmarkError, LookupError):
    """There is nothing that new results can be compared with; the message says what to do."""


class BackportError(TorchmarkError, OSError):
    """The back-ported Timer cannot be written to an environment's torch, or removed from it."""


class ForeignBackportError(BackportError, FileExistsError):
    """The place of the back-ported Timer has files that torchmark did not write."""


class TraceFileError(TorchmarkError, ValueError):
    """A trace file is not valid; the message has file and line."""


class NewerTraceError(TraceFileError):
    """The trace was written by a newer version of torchmark."""


class TraceNotFoundError(InvalidArgumentError, FileNotFoundError):
    """The named trace does not exist."""


class TraceWriteError(TorchmarkError, OSError):
    """A trace cannot be written: missing directory, full disk, or permissions."""


class CaptureError(TorchmarkError, RuntimeError):
    """A capture cannot start: another one is active, or this one was already used."""


class ScriptNotFoundError(InvalidArgumentError, FileNotFoundError):
    """The script or module to run does not exist."""


class NotATraceError(InvalidArgumentError, FileExistsError):
    """The output file of a capture exists and is not a trace, so it is not overwritten."""
