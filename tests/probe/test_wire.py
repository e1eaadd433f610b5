from __future__ import annotations

import os
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark_probe.zygote import wire

MESSAGES = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
)


@given(MESSAGES)
def test_a_message_is_one_line_and_comes_back_as_it_was(message: dict[str, Any]) -> None:
    line = wire.encoded(message)
    assert line.index(b"\n") == len(line) - 1
    assert wire.decoded(line) == {**message, "version": wire.VERSION}
    assert wire.decoded(wire.padded(line)) == wire.decoded(line)
    assert len(wire.padded(line)) % 4096 == 0


@pytest.mark.parametrize("line", [b"\n", b"[1]\n", b'{"a": 1}\n', b'{"version": 99}\n', b"\xff\n"])
def test_what_is_no_message_of_this_version_is_refused(line: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decoded(line)


def test_a_line_longer_than_any_buffer_arrives_whole() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        message = {"text": "x" * 100_000, "more": list(range(1000))}
        wire.send(ours.fileno(), message)
        assert wire.receive(theirs.fileno()) == {**message, "version": wire.VERSION}
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
        with pytest.raises(wire.WireError, match="0 descriptors"):
            wire.take_over(theirs)
