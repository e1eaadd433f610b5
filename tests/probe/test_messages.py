"""Every message comes back as it was, and nothing else passes for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark_probe.loops.sampling import Limits, Sampling
from torchmark_probe.replay.messages import LeftOut, ReplayedInOrder
from torchmark_probe.sweep.messages import Kernel, Swept
from torchmark_probe.zygote import messages

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
    messages.Start(["/a"], 1, None, "torch.py", []),
    messages.Request(messages.Sample(CASE, LIMITS, 7, 5e-6), ["", "/b"], None, [0, 1]),
    messages.Request(messages.Call("f", [{"class": "Stop", "version": 1}]), [], 10, []),
    messages.Answer(messages.Sampled(SAMPLING, 0.5), {"flops": 2}),
    messages.Answer(ReplayedInOrder(SAMPLING, [1.0], [LeftOut(1, "why")]), {}),
    messages.Stop(),
    Swept("skipped", "why"),
    Swept("measured", sampling=SAMPLING, kernels=[Kernel("mm", 1.0, 2.0)]),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda each: type(each).__name__)
def test_a_message_is_one_line_and_comes_back_as_it_was(message: messages.Message) -> None:
    line = messages.encode(message)
    assert line.index(b"\n") == len(line) - 1
    assert messages.decode(line) == message


@given(VALUES)
def test_what_looks_like_a_message_within_plain_json_stays_as_it_is(value: object) -> None:
    """Values of a user may have any keys; only the annotation of a field says what it holds."""
    for each in (value, {"class": "Stop"}, [{"class": "Ended", "status": value}]):
        answer = messages.Answer(messages.Value(each), {"fact": each})
        assert messages.decode(messages.encode(answer)) == answer


def test_a_path_travels_as_text() -> None:
    case = messages.NativeCase(Path("/a/b.so"), "run")
    assert messages.decode(messages.encode(case)) == messages.NativeCase("/a/b.so", "run")


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"[1]\n",
        b"\xff\n",
        b'{"class": "Stop"}\n',
        b'{"version": 99, "class": "Stop"}\n',
        b'{"version": 2, "class": "Rm"}\n',
        b'{"version": 2, "class": "Ended"}\n',
        b'{"version": 2, "class": "Ended", "status": 0, "more": 1}\n',
    ],
)
def test_what_is_no_message_of_this_version_is_refused(line: bytes) -> None:
    with pytest.raises(messages.WireError):
        messages.decode(line)
