"""Every message comes back as it was, nothing else passes for one, and cases are handed over."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark_probe.loops.sampling import Limits, Sampling
from torchmark_probe.zygote import messages, wire

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
LIMITS = Limits(precision=0.01, min_run_time=0.2, max_run_time=2.0)
SAMPLING = Sampling(
    number=3,
    wall=(1.0, 2.0),
    cpu=(1.0, 0.5),
    pace=(5e-6, 6e-6),
    quiet_pace=5e-6,
    clock_resolution=1e-9,
)
CASE = messages.PythonCase("x", globals={"x": {"kind": "json", "value": {"class": "Done"}}})
EXAMPLES = [
    messages.Start(["/a"], 1, None, "torch.py", [], ["my_ops"], ["/b"]),
    messages.Request(messages.Sample(CASE, LIMITS, 7, 5e-6), ["", "/b"], None, [0, 1]),
    messages.Request(messages.Call("f", [{"class": "Stop", "version": 1}]), [], 10, []),
    messages.Answer(messages.Sampled(SAMPLING, 0.5), {"flops": 2}),
    messages.Answer(
        messages.ReplayedInOrder(
            SAMPLING, [1.0], [0.5], [1.5], 5, [messages.LeftOut(1, "why", True)]
        ),
        {},
    ),
    messages.Stop(),
    messages.Swept("skipped", "why"),
    messages.Swept("measured", sampling=SAMPLING, kernels=[messages.Kernel("mm", 1.0, 2.0)]),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda each: type(each).__name__)
def test_a_message_is_one_line_and_comes_back_as_it_was(message: messages.Message) -> None:
    line = wire.encode(message)
    assert line.index(b"\n") == len(line) - 1
    assert wire.decode(line) == message


@given(VALUES)
def test_what_looks_like_a_message_within_plain_json_stays_as_it_is(value: object) -> None:
    """Values of a user may have any keys; only the annotation of a field says what it holds."""
    for each in (value, {"class": "Stop"}, [{"class": "Ended", "status": value}]):
        answer = messages.Answer(messages.Value(each), {"fact": each})
        assert wire.decode(wire.encode(answer)) == answer


def test_a_path_travels_as_text() -> None:
    case = messages.NativeCase(Path("/a/b.so"), "run")
    assert wire.decode(wire.encode(case)) == messages.NativeCase("/a/b.so", "run")


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"[1]\n",
        b"\xff\n",
        b'{"version": 99, "class": "Stop"}\n',
        b'{"class": "Rm"}\n',
        b'{"class": "Ended"}\n',
        b'{"class": "Ended", "status": 0, "more": 1}\n',
    ],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(line)


@given(st.text(max_size=5000))
def test_a_padded_line_is_the_same_message_and_as_long_as_its_neighbours(text: str) -> None:
    line = wire.encode(messages.StageBegan(text))
    assert wire.decode(wire.pad(line)) == messages.StageBegan(text)
    assert len(wire.pad(line)) % 4096 == 0


def test_a_line_longer_than_any_buffer_arrives_whole() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        message = messages.StageBegan("x" * 200_000)
        wire.send(ours.fileno(), message)
        assert wire.receive(theirs.fileno()) == message
        ours.close()
        assert wire.receive(theirs.fileno()) is None


@pytest.mark.parametrize("in_haste", [True, False])
def test_a_case_is_handed_over_as_descriptors_that_work(*, in_haste: bool) -> None:
    ours, theirs = socket.socketpair()
    pipes = [os.pipe() for _ in range(4)]
    with ours, theirs:
        files = wire.CaseFiles(*(write for _, write in pipes))
        wire.hand_over(ours, files, in_haste=in_haste)
        case = wire.take_over(theirs)
        assert case is not None
        assert case[1] == in_haste
        for (read, write), received in zip(pipes, case[0], strict=True):
            os.write(received, b"here")
            assert os.read(read, 10) == b"here"
            for descriptor in (read, write, received):
                os.close(descriptor)
        ours.close()
        assert wire.take_over(theirs) is None


def test_a_case_without_its_descriptors_is_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"\n")
        with pytest.raises(wire.WireError, match="0 descriptors"):
            wire.take_over(theirs)
