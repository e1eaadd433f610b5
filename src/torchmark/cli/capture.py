"""`torchmark capture`: run a training script unchanged, and write a trace of its operator calls.

The recorder starts when the script imports torch, not before. So settings that a script makes for
this import, such as the number of threads or warning filters, work as they do without torchmark.
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
    help="File for the trace; an existing trace is replaced.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Record the first N steps only; the script then continues at its normal speed.",
)
@click.option(
    "--values",
    is_flag=True,
    help="Also keep the exact values of tensors, in NAME.safetensors for NAME.jsonl.gz.",
)
@click.option("-m", "as_module", is_flag=True, help="Run a module, as python -m does.")
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
    """Run a training script, and record every operator call that it makes.

    SCRIPT runs as with `python SCRIPT ARGS…`, with the same output and exit code. All arguments
    after SCRIPT are passed to it. A step ends when the optimizer steps. The trace is written while
    the script runs, and is kept if the script fails or is interrupted.

    \b
    torchmark capture --steps 3 train.py --epochs 1
    torchmark capture --steps 3 -o step.jsonl.gz -m package.train
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
            f"{file} exists and is not a trace, so it is not replaced; name another file with -o"
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
    """One capture, which starts when torch is imported; `options` are those of `Capture`."""

    def __init__(self, output: Path, **options: Any) -> None:
        self._output = output
        self._options = options
        self._values = bool(options["values"])
        self._capture: Capture | None = None
        self._process = os.getpid()
        self.refusal: TorchmarkError | None = None
        """Why the capture could not start."""

    def start(self) -> None:
        from torchmark.capture.capture import Capture  # noqa: PLC0415 - it imports torch

        capture = Capture(self._output, **self._options)
        try:
            capture.__enter__()
        except TorchmarkError as error:
            self.refusal = error
            raise  # from the script's import of torch: without a capture it need not run
        self._capture = capture

    def stop(self) -> None:
        if self._capture is not None:
            self._capture.__exit__(None, None, None)

    def report(self, script: str) -> None:
        if os.getpid() != self._process:
            return  # a fork of the script has ended
        sys.stdout.flush()
        if self._capture is None:
            lines = [f"{script} never imported torch; nothing was written"]
        else:
            lines = _summary(self._capture.trace(), self._output, with_values=self._values)
        for line in lines:
            warn(line)


def _run_to_its_end(run: Callable[[], None], recording: _Recording) -> SystemExit:
    """Run the script, wait for its threads, stop the capture; return the script's exit."""
    ending = SystemExit(0)
    for part in (run, _wait_for_threads):
        try:
            part()
        except SystemExit as wanted:
            ending = wanted
        except ScriptNotFoundError:
            recording.stop()
            raise
        except BaseException as error:  # Python would show any of them and exit
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
    """Wait for the script's threads before the capture ends, as Python does at its exit.

    As in Python, functions registered for this moment run first. For example, the threads of a
    ThreadPoolExecutor that was not shut down wait for work until such a function stops them.
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
        *(f"not captured: {sentence}" for sentence in trace.unseen),
        f"written to {output}",
        *([f"written to {values}"] if with_values and values.exists() else []),
        f"show it with `torchmark summary {output}`, run it with `torchmark replay {output}`",
    ]


def _real_step(plain: PlainSteps | None) -> list[str]:
    """The time of a step without the capture."""
    if plain is None or not plain.seconds:
        return []
    steps = number_text(len(plain.seconds), "step")
    took = short_seconds_text(median(plain.seconds))
    return [f"a real step takes {took} (median of {steps} after the captured ones)"]
