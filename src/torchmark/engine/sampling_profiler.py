"""A loop looked at from outside by py-spy: stacks of the measured loop, and of nothing else.

py-spy attaches when torch is imported and the statement is warm, and of each stack only what lies
inside of the loop is kept. Waiting counts as time, as it does in a measurement, so all threads are
asked for, the idle too, and those that are not the loop's are left out.

The process is paused for each sample, since a stack that is read while it changes is a wrong one.
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
"""Of the weights of `Recording.per_run`."""

_LOOP = re.compile(r"(_torchmark_blocks|torchmark_run_\d+) \(")

_RATE, _NATIVE_RATE = 499, 197
"""Samples a second. Primes, so that no statement keeps step with them; a native stack takes
milliseconds, and the process stands still meanwhile."""

_BEHIND = 10
"""py-spy takes all its samples also when it is late. This many times the time that was asked for,
and half a minute for reading the symbols of torch, are a hang."""
_SYMBOLS_SECONDS = 30.0

_SNIPPET = re.compile(rf"(?:_torchmark_blocks\.<locals>\.)?(?P<name>.*) \({SOURCE_PREFIX}.*\)")
"""A function that the user's own setup or statement defines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What was seen of a statement that ran again and again."""

    stacks: tuple[Stack, ...]
    """From the loop inwards; weights are samples."""

    samples: int
    """Taken of the thread that runs the loop."""

    inside: int
    """Of those, how many found it in the loop: the sum of the weights."""

    seconds_per_run: float
    """Of the statement, on the wall, right before anybody looked."""

    @property
    def share_inside(self) -> float:
        return self.inside / self.samples

    def per_run(self) -> tuple[Stack, ...]:
        """The stacks in nanoseconds of one run, so that those of two recordings can be compared."""
        return _adding_up_to(self.stacks, max(1, round(self.seconds_per_run * 1e9)))


def record(
    zygote: Zygote,
    case: Ready,
    *,
    seconds: int,
    native: bool,
    time_limit: float = TIME_LIMIT,
) -> Recording:
    """Let the case run, and look at it for so long; `native` shows the frames of C and C++ too.

    Seconds are whole ones, as py-spy knows no others; they come on top of the time limit.
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
            loop.stop()  # a statement that failed says why itself
        if told.returncode != 0 or not file.exists():
            raise _failure(told)
        text = file.read_text(encoding="utf-8", errors="replace")
    return recording_of(parse_stacks(text), seconds_per_run=loop.seconds_per_run)


def recording_of(stacks: Iterable[Stack], *, seconds_per_run: float) -> Recording:
    """The stacks that py-spy wrote, each below the name of its thread, cut to the loop."""
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
            f"py-spy saw the measured loop in none of its {sum(s.weight for s in given)} samples; "
            "look for longer (--seconds)"
        )
    return Recording(
        stacks=tuple(starmap(Stack, sorted(weights.items()))),
        samples=sum(stack.weight for stack in of_loop),
        inside=sum(weights.values()),
        seconds_per_run=seconds_per_run,
    )


def is_in_loop(stack: Stack) -> bool:
    """Whether a stack as py-spy wrote it was found inside of a measured loop."""
    return _in_loop(stack.frames) is not None


def py_spy() -> str:
    """The path of py-spy, or an error that says how to get it."""
    return need_tool(
        "py-spy",
        "looking into a running loop needs py-spy, which is neither beside this Python nor on "
        "PATH; install it with: pip install 'torchmark[flame]' (--instructions does without it)",
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
        "--nolineno",  # a function is one frame, and the same frame in the next version of a file
        *(["--native"] if native else []),
    ]


def _watch(command: Sequence[str], limit: float) -> subprocess.CompletedProcess[str]:
    try:
        return run_tool(command, limit, variables={"RUST_BACKTRACE": "0"})
    except subprocess.TimeoutExpired as error:
        raise ProfilerError(f"py-spy was stopped: it had not ended after {limit:.0f} s") from error
    except OSError as error:
        raise ProfilerError(f"py-spy cannot be started: {error}") from error


def _failure(told: subprocess.CompletedProcess[str]) -> ProfilerError:
    """What py-spy's own words mean to a person."""
    said = f"{told.stdout}\n{told.stderr}".strip()
    if re.search(r"permission denied|operation not permitted", said, re.IGNORECASE):
        return AttachDeniedError(
            "py-spy is not allowed to look into the process that runs the statement. Run the same "
            "command with sudo, or allow it for all processes of a user: sudo sysctl "
            "kernel.yama.ptrace_scope=0, or start the container with --cap-add SYS_PTRACE. "
            f"--instructions does without it. py-spy said: {said}"
        )
    return ProfilerError(
        f"py-spy ended with status {told.returncode} and gave no stacks; it said:\n"
        f"{said or '(nothing)'}"
    )


def _in_loop(frames: tuple[str, ...]) -> tuple[str, ...] | None:
    """The frames from the loop on, by names that other processes have too."""
    for index, frame in enumerate(frames):
        if _LOOP.match(frame):
            return (LOOP_FRAME, *_named(frames[index + 1 :]))
    return None


def _named(frames: Iterable[str]) -> list[str]:
    """Under names that are the same in every process.

    Not by address: a function without a name is its library, and several in a row are one.
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
    """The same stacks with whole weights in the same proportions; what rounds to nothing goes.

    The sums are rounded and not the weights, so that what is rounded off is not lost.
    """
    given = sum(stack.weight for stack in stacks)
    sums = [0, *accumulate(stack.weight for stack in stacks)]
    scaled = [round(total * each / given) for each in sums]
    return tuple(
        Stack(stack.frames, end - start)
        for stack, (start, end) in zip(stacks, pairwise(scaled), strict=True)
        if end > start
    )
