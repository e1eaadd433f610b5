"""`torchmark capture`: somebody's training script, unchanged, and a trace of what it called.

The recorder starts when the script imports torch, not before: what a script sets up for that import
(the number of threads in its environment, filters of warnings) works as it does without torchmark.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import sys
import threading
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchmark.capture.traces.exact_values import values_file
from torchmark.capture.user_program import (
    require_script,
    run_module,
    run_script,
    users_traceback,
    when_imported,
)
from torchmark.cli.shell import check_writable, code_of, end_of, warn
from torchmark.errors import MissingToolError, NotATraceError, ScriptNotFoundError, TorchmarkError
from torchmark.report.figures import number_text, short_seconds_text
from torchmark_probe.loops.intervals import median

if TYPE_CHECKING:
    from torchmark.capture.capture import Capture
    from torchmark.model.trace import PlainSteps, Trace


@click.command("capture", context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("trace.jsonl.gz"),
    show_default=True,
    metavar="FILE",
    help="Where the trace goes; one that is there already is replaced.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Record this many steps of the optimizer; the script runs on without being watched.",
)
@click.option(
    "--values", is_flag=True, help="Keep the tensors' exact values, in FILE.safetensors beside it."
)
@click.option("-m", "as_module", is_flag=True, help="Run a module by its name, as python -m does.")
@click.argument("script", metavar="SCRIPT")
@click.argument("args", metavar="[ARGS]…", nargs=-1, type=click.UNPROCESSED)
def capture_command(
    output: Path,
    steps: int | None,
    values: bool,
    as_module: bool,
    script: str,
    args: tuple[str, ...],
) -> None:
    """Run a training script and write down every operator call that it makes.

    SCRIPT runs as `python SCRIPT ARGS…` would run it, its output and exit code are its own; what
    stands behind SCRIPT is for SCRIPT. The trace is written as the script goes, and kept when it
    fails or is interrupted.
    """
    if not as_module:
        require_script(script)
    _check_output(output)
    if values:
        _require_safetensors()
    command_line = ["-m", script, *args] if as_module else [script, *args]
    recording = _Recording(output, steps=steps, values=values, command=command_line)
    run = partial(run_module if as_module else run_script, script, args)
    with when_imported("torch", lambda _: recording.start()):
        ending = _run_to_its_end(run, recording)
    recording.report(script)
    raise ending


def _check_output(file: Path) -> None:
    check_writable([file])
    if file.is_file() and file.stat().st_size and not _is_trace(file):
        raise NotATraceError(
            f"{file} is there and is not a trace, so it stays as it is; name another with -o FILE"
        )


def _require_safetensors() -> None:
    if importlib.util.find_spec("safetensors") is None:
        raise MissingToolError(
            "--values needs safetensors: pip install 'torchmark[capture]', or leave --values out"
        )


def _is_trace(file: Path) -> bool:
    try:
        with gzip.open(file) if file.name.endswith(".gz") else file.open("rb") as content:
            return content.read(len('{"trace"')) == b'{"trace"'
    except (OSError, EOFError, zlib.error):
        return False


class _Recording:
    """One capture, which begins when torch is there; `options` are those of `Capture`."""

    def __init__(self, output: Path, **options: Any) -> None:
        self._output = output
        self._options = options
        self._values = bool(options["values"])
        self._capture: Capture | None = None
        self._process = os.getpid()
        self.refusal: TorchmarkError | None = None
        """Why it could not begin."""

    def start(self) -> None:
        from torchmark.capture.capture import Capture  # noqa: PLC0415 - it imports torch

        capture = Capture(self._output, **self._options)
        try:
            capture.__enter__()
        except TorchmarkError as error:
            self.refusal = error
            raise  # out of the script's import of torch: there is nothing to run it for
        self._capture = capture

    def stop(self) -> None:
        if self._capture is not None:
            self._capture.__exit__(None, None, None)

    def report(self, script: str) -> None:
        if os.getpid() != self._process:
            return  # a fork of the script has come to its end
        sys.stdout.flush()
        if self._capture is None:
            lines = [f"{script} never imported torch; nothing was written"]
        else:
            lines = _summary(self._capture.trace(), self._output, with_values=self._values)
        for line in lines:
            warn(line)


def _run_to_its_end(run: Callable[[], None], recording: _Recording) -> SystemExit:
    """Gives what the script wants to leave with."""
    ending = SystemExit(0)
    for part in (run, _wait_for_threads):
        try:
            part()
        except SystemExit as wanted:
            ending = wanted
        except ScriptNotFoundError:
            recording.stop()
            raise
        except BaseException as error:  # whatever it is, Python would show it and leave
            if error is recording.refusal:
                raise
            ending = SystemExit(end_of(error)[1] if isinstance(error, KeyboardInterrupt) else 1)
            error = error.with_traceback(users_traceback(error))
            sys.excepthook(type(error), error, error.__traceback__)
    try:
        recording.stop()
    except TorchmarkError as error:
        warn(str(error))
        ending = ending if ending.code else SystemExit(code_of(error))
    return ending


def _wait_for_threads() -> None:
    """Python waits for them at its end; here that is before the end of the capture.

    As there, those come first who have to tell their threads that it is the end: a
    ThreadPoolExecutor that nobody has shut down waits for work until then.
    """
    at_the_end = threading._threading_atexits  # type: ignore[attr-defined]  # noqa: SLF001
    while at_the_end:
        at_the_end.pop()()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _summary(trace: Trace, output: Path, *, with_values: bool) -> list[str]:
    values = values_file(output)
    calls = trace.counts_by_call()
    steps = sum(step.repeats for step in trace.steps)
    shares = ", ".join(f"{phase} {times}" for phase, times in trace.counts_by_phase().most_common())
    return [
        f"{calls.total()} calls, {len(calls)} distinct, in {steps} "
        f"step{'s' if steps != 1 else ''}" + (f": {shares}" if shares else ""),
        *_real_step(trace.plain_steps),
        *(f"not seen: {sentence}" for sentence in trace.unseen),
        f"written to {output}",
        *([f"written to {values}"] if with_values and values.exists() else []),
        f"see it with `torchmark summary {output}`, run it with `torchmark replay {output}`",
    ]


def _real_step(plain: PlainSteps | None) -> list[str]:
    """What a step takes when nothing is captured."""
    if plain is None or not plain.seconds:
        return []
    steps = number_text(len(plain.seconds), "step")
    took = short_seconds_text(median(plain.seconds))
    return [f"a real step takes {took} (median of {steps} after the captured ones)"]
