"""What the exit code of every command says, so that scripts and CI can tell the causes apart."""

from __future__ import annotations

import enum

from torchmark.errors import (
    BackportError,
    CallgrindFileError,
    CaseFailedError,
    CompileError,
    CompilerMissingError,
    MissingToolError,
    MissingTorchError,
    OutputFileError,
    ProfilerError,
    StatementSyntaxError,
    StoreError,
    TorchmarkError,
    ZygoteError,
)


class ExitCode(enum.IntEnum):
    """The documented codes."""

    FINE = 0
    REGRESSION = 1
    """A regression was asked to fail on, and found; nothing else gives this code."""

    USAGE = 2
    """The call, a number in it, a file that it names or the settings are wrong."""

    CASE_FAILED = 3
    """A statement or a case failed."""

    ENVIRONMENT = 4
    """torch, a tool, the store or the output cannot be used."""

    DEFECT = 70
    """torchmark itself is at fault: sysexits.h calls it an internal software error."""

    INTERRUPTED = 130
    """Ctrl-C, as shells have it."""

    PIPE_CLOSED = 141
    """The reader of the output has left, as shells have it."""


_STATEMENT_AT_FAULT = (StatementSyntaxError, CaseFailedError, CompileError, CallgrindFileError)
_ENVIRONMENT_AT_FAULT = (
    MissingTorchError,
    MissingToolError,
    CompilerMissingError,
    ProfilerError,
    ZygoteError,
    BackportError,
    StoreError,
    OutputFileError,
)


def code_of(error: TorchmarkError) -> ExitCode:
    """The code for an error that ends a command."""
    if isinstance(error, _STATEMENT_AT_FAULT):
        return ExitCode.CASE_FAILED
    if isinstance(error, _ENVIRONMENT_AT_FAULT):
        return ExitCode.ENVIRONMENT
    return ExitCode.USAGE
