"""Samples a running loop from outside with py-spy, and keeps only the stacks inside the loop.

py-spy attaches after torch is imported and the statement is warm. From each stack, only the part
inside the loop is kept. Waiting counts as time, as in a measurement, so py-spy samples all threads,
including idle ones, and stacks of other threads are dropped.

The process is paused for each sample, because a stack that is read while it changes is wrong.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, starmap
from pathlib import Path

from torchmark.engine.cores import begin
from torchmark.engine.files import private_directory
from torchmark.engine.machine import need_tool, run_tool
from torchmark.engine.zygote.cases import LOOP_FRAME, Ready
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import AttachDeniedError, ProfilerError
from torchmark.flame.stacks import Stack, merge_stacks, parse_stacks, without_address
from torchmark.model.run import TIME_LIMIT
from torchmark_probe.loops.snippets import SOURCE_PREFIX

UNIT = "ns per run"
"""Unit of the weights of `Recording.per_run`."""

_LOOP = re.compile(r"(_torchmark_blocks|torchmark_run_\d+) \(")

_RATE, _NATIVE_RATE = 499, 197
"""Samples per second. The rates are prime, so that no statement runs in step with them. A native
stack takes milliseconds to read, and the process is paused for that time."""

_BEHIND = 10
"""py-spy takes all its samples even if it falls behind. If it takes longer than the requested time
multiplied by this, plus the time to read torch's symbols, it is assumed to hang."""
_SYMBOLS_SECONDS = 30.0

_SNIPPET = re.compile(rf"(?:_torchmark_blocks\.<locals>\.)?(?P<name>.*) \({SOURCE_PREFIX}.*\)")
"""A function that the user's setup or statement defines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The stacks sampled from a statement that ran in a loop."""

    stacks: tuple[Stack, ...]
    """From the loop inwards; the weights are numbers of samples."""

    samples: int
    """Number of samples of the thread that runs the loop."""

    inside: int
    """Number of these samples that were inside the loop: the sum of the weights."""

    seconds_per_run: float
    """Wall-clock time of one run of the statement, measured right before sampling."""

    @property
    def share_inside(self) -> float:
        return self.inside / self.samples

    def per_run(self) -> tuple[Stack, ...]:
        """Scale the stacks to nanoseconds per run, so that two recordings can be compared."""
        return _adding_up_to(self.stacks, max(1, round(self.seconds_per_run * 1e9)))


def record(
    zygote: Zygote,
    case: Ready,
    *,
    seconds: int,
    native: bool,
    time_limit: float = TIME_LIMIT,
) -> Recording:
    """Run the case and sample it for this many seconds; `native` includes C and C++ frames.

    `seconds` is whole because py-spy accepts no fractions. It is added to the time limit.
    """
    program = py_spy()
    patience = _SYMBOLS_SECONDS + _BEHIND * seconds
    with private_directory() as directory:
        file = directory / "stacks"
        with zygote.loop(case, time_limit=time_limit, patience=patience) as loop:
            command = _command(program, loop.pid, file, seconds, native)
            watching = begin(lambda: _watch(command, patience), "py-spy")
            loop.listen_until(watching.done)
            told = watching.result()
            loop.stop()  # a statement that failed raises its own error
        if told.returncode != 0 or not file.exists():
            raise _failure(told)
        text = file.read_text(encoding="utf-8", errors="replace")
    return recording_of(parse_stacks(text), seconds_per_run=loop.seconds_per_run)


def recording_of(stacks: Iterable[Stack], *, seconds_per_run: float) -> Recording:
    """Cut the stacks that py-spy wrote, each below the name of its thread, to the loop."""
    given = [stack for stack in stacks if stack.frames]
    loops = {stack.frames[0] for stack in given if is_in_loop(stack)}
    of_loop = [stack for stack in given if stack.frames[0] in loops]
    weights = merge_stacks(
        Stack(frames, stack.weight)
        for stack in of_loop
        if (frames := _in_loop(stack.frames)) is not None
    )
    if not weights:
        raise ProfilerError(
            f"none of py-spy's {sum(s.weight for s in given)} samples was inside the measured "
            "loop; sample for longer (--seconds)"
        )
    return Recording(
        stacks=tuple(starmap(Stack, sorted(weights.items()))),
        samples=sum(stack.weight for stack in of_loop),
        inside=sum(weights.values()),
        seconds_per_run=seconds_per_run,
    )


def is_in_loop(stack: Stack) -> bool:
    """Whether a stack that py-spy wrote is inside a measured loop."""
    return _in_loop(stack.frames) is not None


def py_spy() -> str:
    """Return the path of py-spy, or raise an error that says how to install it."""
    return need_tool(
        "py-spy",
        "sampling a running loop needs py-spy, which is neither next to this Python nor on PATH; "
        "install it with: pip install 'torchmark[flame]' (--instructions works without it)",
    )


def _command(program: str, pid: int, file: Path, seconds: int, native: bool) -> list[str]:
    return [
        program,
        "record",
        *("--pid", str(pid)),
        *("--output", str(file)),
        *("--format", "raw"),
        *("--rate", str(_NATIVE_RATE if native else _RATE)),
        *("--duration", str(seconds)),
        "--threads",
        "--idle",
        "--nolineno",  # one frame per function, which stays the same if lines of the file move
        *(["--native"] if native else []),
    ]


def _watch(command: Sequence[str], limit: float) -> subprocess.CompletedProcess[str]:
    try:
        return run_tool(command, limit, variables={"RUST_BACKTRACE": "0"})
    except subprocess.TimeoutExpired as error:
        raise ProfilerError(f"py-spy was stopped: it took longer than {limit:.0f} s") from error
    except OSError as error:
        raise ProfilerError(f"py-spy cannot be started: {error}") from error


def _failure(told: subprocess.CompletedProcess[str]) -> ProfilerError:
    """Turn py-spy's output into an error that says what to do."""
    said = f"{told.stdout}\n{told.stderr}".strip()
    if re.search(r"permission denied|operation not permitted", said, re.IGNORECASE):
        return AttachDeniedError(
            "py-spy is not allowed to read the process that runs the statement. Run the same "
            "command with sudo, or allow it for all processes of a user (sudo sysctl "
            "kernel.yama.ptrace_scope=0), or start the container with --cap-add SYS_PTRACE. "
            f"--instructions works without this permission. py-spy said: {said}"
        )
    return ProfilerError(
        f"py-spy exited with status {told.returncode} and wrote no stacks; it said:\n"
        f"{said or '(nothing)'}"
    )


def _in_loop(frames: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the frames from the loop on, by names that are the same in other processes."""
    for index, frame in enumerate(frames):
        if _LOOP.match(frame):
            return (LOOP_FRAME, *_named(frames[index + 1 :]))
    return None


def _named(frames: Iterable[str]) -> list[str]:
    """Name the frames in a way that is the same in every process.

    A function without a symbol is named by its library instead of its address. Several of them in a
    row become one frame.
    """
    named: list[str] = []
    for frame in frames:
        own = _SNIPPET.fullmatch(frame)
        name = f"{own['name']} (snippet)" if own else without_address(frame)
        is_nameless = not own and name != frame
        if not is_nameless or named[-1:] != [name]:
            named.append(name)
    return named


def _adding_up_to(stacks: Sequence[Stack], total: int) -> tuple[Stack, ...]:
    """Scale the weights to whole numbers that add up to the total; drop those that become zero.

    The cumulative sums are rounded instead of the weights, so that rounding loses nothing.
    """
    given = sum(stack.weight for stack in stacks)
    sums = [0, *accumulate(stack.weight for stack in stacks)]
    scaled = [round(total * each / given) for each in sums]
    return tuple(
        Stack(stack.frames, end - start)
        for stack, (start, end) in zip(stacks, pairwise(scaled), strict=True)
        if end > start
    )
