"""py-spy looks at the measured loop: the real one, and for what it may say, one that is made up."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_old_torch import OLD_PYTHON
from tests.engine.zygote_cases import case
from tests.light_cpp import compile_light
from torchmark.cli.shell import ExitCode, code_of
from torchmark.engine.cpp.source import CppStatement
from torchmark.engine.environments import ask_interpreter
from torchmark.engine.sampling_profiler import Recording, py_spy, record, recording_of
from torchmark.engine.zygote.cases import LOOP_FRAME
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import (
    AttachDeniedError,
    CaseFailedError,
    MissingToolError,
    ProfilerError,
    TorchmarkError,
)
from torchmark.flame.stacks import Stack

ADD = case("torch.add(x, x)", "x = torch.ones(1)")

SPIN = CppStatement(
    stmt="spin();",
    global_setup="static volatile int sink;\n"
    'extern "C" __attribute__((noinline)) void spin() {\n'
    "  for (int i = 0; i < 1000; i++) sink = sink + i;\n}",
)


@pytest.fixture
def fake_py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where py-spy is found, among the scripts of this Python.

    Beside it is a folder for what should not be left behind.
    """
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path / "py-spy"


def script(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def frames_of(recording: Recording) -> set[str]:
    return {frame for stack in recording.stacks for frame in stack.frames}


def check(recording: Recording) -> None:
    assert recording.share_inside >= 0.95
    assert recording.inside == sum(stack.weight for stack in recording.stacks)
    assert all(stack.frames[0] == LOOP_FRAME for stack in recording.stacks)
    assert not any("torchmark" in frame or "0x" in frame for frame in frames_of(recording))


def test_the_samples_are_of_the_loop_alone(plain_zygote: Zygote) -> None:
    called = case("f()", "def f():\n    return sum(range(1000))")
    recording = record(plain_zygote, called, seconds=1, native=False)
    check(recording)
    widest = max(recording.stacks, key=lambda stack: stack.weight)
    assert widest.frames == (LOOP_FRAME, "f (snippet)")
    assert recording.seconds_per_run > 0


def test_native_frames_of_torch_are_seen(plain_zygote: Zygote) -> None:
    recording = record(plain_zygote, ADD, seconds=1, native=True)
    check(recording)
    assert any("libtorch_cpu" in frame for frame in frames_of(recording))


def test_native_frames_of_an_old_torch_are_seen() -> None:
    with Zygote(Launch(interpreter=ask_interpreter(OLD_PYTHON))) as zygote:
        recording = record(zygote, ADD, seconds=1, native=True)
    check(recording)
    assert any("libtorch" in frame for frame in frames_of(recording))


def test_what_a_compiled_statement_does_without_the_gil_is_seen(
    plain_zygote: Zygote, tmp_path: Path
) -> None:
    (native,) = compile_light(tmp_path, [SPIN])
    recording = record(plain_zygote, native, seconds=1, native=True)
    check(recording)
    spinning = sum(stack.weight for stack in recording.stacks if "spin (" in stack.frames[-1])
    assert spinning > 0.9 * recording.inside


def test_waiting_is_part_of_the_time_and_other_threads_are_not(plain_zygote: Zygote) -> None:
    """A thread that waits for ever would be half of all samples."""
    setup = (
        "import threading, time\n"
        "forever = threading.Event()\n"
        "threading.Thread(target=forever.wait, daemon=True).start()"
    )
    recording = record(plain_zygote, case("time.sleep(0.001)", setup), seconds=1, native=True)
    check(recording)
    assert recording.samples > 100
    assert not any("threading" in frame for frame in frames_of(recording))


def test_a_statement_that_fails_meanwhile_says_so_itself(
    plain_zygote: Zygote, fake_py_spy: Path
) -> None:
    now = fake_py_spy.with_name("now")
    late = case(f"if os.path.exists({str(now)!r}): raise KeyError('late')", "import os")
    script(fake_py_spy, f'touch {now}; while kill -0 "$3"; do :; done; exit 1')  # record --pid PID
    with pytest.raises(CaseFailedError, match="late"):
        record(plain_zygote, late, seconds=1, native=False)


def test_without_py_spy_the_message_names_the_extra(fake_py_spy: Path) -> None:
    with pytest.raises(MissingToolError, match=r"pip install 'torchmark\[flame\]'") as caught:
        py_spy()
    assert code_of(caught.value) is ExitCode.ENVIRONMENT


def test_py_spy_is_found_beside_python_and_then_on_the_path(
    fake_py_spy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(fake_py_spy, "true")
    assert py_spy() == str(fake_py_spy)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "elsewhere"))
    with pytest.raises(MissingToolError):
        py_spy()
    monkeypatch.setenv("PATH", f"/usr/bin:/bin:{tmp_path}")
    assert py_spy() == str(fake_py_spy)


def failed(zygote: Zygote) -> TorchmarkError:
    with pytest.raises(ProfilerError) as caught:
        record(zygote, case("pass"), seconds=1, native=False)
    assert code_of(caught.value) is ExitCode.ENVIRONMENT
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    return caught.value


def test_who_may_not_attach_is_told_what_to_do(plain_zygote: Zygote, fake_py_spy: Path) -> None:
    """The real py-spy as another user, who may not look into our processes."""
    real = Path(sys.prefix) / "bin" / "py-spy"
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # which all users can reach
        Path(folder).chmod(0o755)
        theirs = shutil.copy(real, folder)
        nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups"
        script(fake_py_spy, f'exec {nobody} {theirs} "$@"')
        error = failed(plain_zygote)
    assert isinstance(error, AttachDeniedError)
    for remedy in ("sudo", "kernel.yama.ptrace_scope=0", "--cap-add SYS_PTRACE"):
        assert remedy in str(error)


@pytest.mark.parametrize(
    "said",
    [
        "Error: Permission Denied: Try running again with elevated permissions by going 'sudo'",
        "Error: Failed to open process\nReason: Operation not permitted (os error 1)",
        "Permission denied (os error 13)",
    ],
)
def test_every_way_to_say_no_is_understood(
    plain_zygote: Zygote, fake_py_spy: Path, said: str
) -> None:
    script(fake_py_spy, f'echo "{said}" >&2; exit 1')
    assert isinstance(failed(plain_zygote), AttachDeniedError)


@pytest.mark.parametrize("status", [0, 1])
def test_what_else_py_spy_has_to_say_is_shown(
    plain_zygote: Zygote, fake_py_spy: Path, status: int
) -> None:
    script(fake_py_spy, f"echo 'Error: Unsupported version of Python: 9.9' >&2; exit {status}")
    error = failed(plain_zygote)
    assert not isinstance(error, AttachDeniedError)
    assert "Unsupported version of Python: 9.9" in str(error)


def test_a_py_spy_that_cannot_be_started_is_an_error(
    plain_zygote: Zygote, fake_py_spy: Path
) -> None:
    fake_py_spy.write_bytes(b"\x00")
    fake_py_spy.chmod(0o755)
    assert "cannot be started" in str(failed(plain_zygote))


def test_no_sample_is_an_error_that_says_what_to_do(
    plain_zygote: Zygote, fake_py_spy: Path
) -> None:
    script(fake_py_spy, 'while [ "$1" != --output ]; do shift; done; : > "$2"')
    assert "--seconds" in str(failed(plain_zygote))


def test_a_long_look_has_the_time_that_it_needs(fake_py_spy: Path) -> None:
    class Loops:
        """Says for how long the case may run."""

        def loop(self, _case: object, *, time_limit: float, patience: float) -> None:
            assert time_limit == 300.0
            raise CaseFailedError(f"{patience}", kind="timeout")

    script(fake_py_spy, "exit 1")
    with pytest.raises(CaseFailedError) as caught:
        record(Loops(), case("pass"), seconds=600, native=False, time_limit=300.0)  # type: ignore[arg-type]
    assert float(str(caught.value)) >= 600


def test_py_spy_gets_no_more_than_it_needs(plain_zygote: Zygote, fake_py_spy: Path) -> None:
    script(fake_py_spy, 'echo "$@" >&2; exit 1')
    said = str(failed(plain_zygote))
    assert "--duration 1" in said
    assert "--idle" in said
    assert "--native" not in said


IN_LOOP = (
    "thread (7): MainThread",
    "main (__main__.py)",
    "_torchmark_blocks (<torchmark snippet 1+1>)",
)


def recorded(*stacks: Stack) -> Recording:
    return recording_of(stacks, seconds_per_run=1e-6)


def test_what_is_outside_of_the_loop_is_counted_and_dropped() -> None:
    recording = recorded(
        Stack((*IN_LOOP, "f (a.py)"), 8), Stack(IN_LOOP[:2], 2), Stack(("thread (8): other",), 5)
    )
    assert recording.stacks == (Stack((LOOP_FRAME, "f (a.py)"), 8),)
    assert (recording.inside, recording.samples) == (8, 10)


def test_functions_without_a_name_are_their_library_whatever_their_address() -> None:
    recording = recorded(
        Stack((*IN_LOOP, "0x7f01 (lib.so)", "0x7f02 (lib.so)", "g (lib.so)"), 1),
        Stack((*IN_LOOP, "0x7f99 (lib.so)", "g (lib.so)"), 2),
    )
    assert recording.stacks == (Stack((LOOP_FRAME, "[lib.so]", "g (lib.so)"), 3),)


def test_a_loop_that_is_called_in_a_loop_is_the_outer_one() -> None:
    recording = recorded(Stack((*IN_LOOP, "f (a.py)", *IN_LOOP[1:]), 1))
    assert recording.stacks[0].frames[:2] == (LOOP_FRAME, "f (a.py)")


def test_functions_of_the_setup_have_the_same_names_in_every_process() -> None:
    names = ("_torchmark_blocks.<locals>.A.f", "<lambda>")
    snippets = [[f"{name} (<torchmark snippet {number}>)" for name in names]
                for number in ("7+2", "12+31")]  # fmt: skip
    recording = recorded(*(Stack((*IN_LOOP, *frames), 1) for frames in snippets))
    assert recording.stacks == (Stack((LOOP_FRAME, "A.f (snippet)", "<lambda> (snippet)"), 2),)


@given(
    weights=st.lists(st.integers(1, 500), min_size=1, max_size=30),
    seconds=st.floats(1e-8, 10.0),
)
def test_times_per_run_add_up_and_keep_their_proportions(
    weights: list[int], seconds: float
) -> None:
    stacks = [Stack((*IN_LOOP, f"f{index}"), weight) for index, weight in enumerate(weights)]
    recording = recording_of(stacks, seconds_per_run=seconds)
    per_run = {stack.frames: stack.weight for stack in recording.per_run()}
    total = max(1, round(seconds * 1e9))
    assert sum(per_run.values()) == total
    assert all(weight > 0 for weight in per_run.values())
    for stack in recording.stacks:
        exact = total * stack.weight / sum(weights)
        assert abs(per_run.get(stack.frames, 0) - exact) <= 1.001
