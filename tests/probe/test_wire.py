from __future__ import annotations

import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark_probe.zygote import messages, wire


@given(st.text(max_size=5000))
def test_a_padded_line_is_the_same_message_and_as_long_as_its_neighbours(text: str) -> None:
    line = messages.encode(messages.StageBegan(text))
    assert messages.decode(wire.pad(line)) == messages.StageBegan(text)
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
        wire.hand_over(ours, wire.Case(wire.CaseFiles(*(write for _, write in pipes)), in_haste))
        case = wire.take_over(theirs)
        assert case is not None
        assert case.in_haste == in_haste
        for (read, write), received in zip(pipes, case.files, strict=True):
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
        with pytest.raises(messages.WireError, match="0 descriptors"):
            wire.take_over(theirs)
