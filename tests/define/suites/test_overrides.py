"""Every case of the suite runs on old and new torch, and goes the way that its name says."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.engine.test_old_torch import OLD_PYTHON
from tests.engine.zygote_cases import QUICK, case, instructions
from torchmark.analyse.overheads import PLAIN
from torchmark.define.expansion import materialize
from torchmark.define.selection import selected
from torchmark.define.suites.loading import load_suite
from torchmark.define.suites.overrides import (
    IMPORTED_BY_DISPATCH,
    SEED_KINDS,
    SETUPS,
    SUITE,
)
from torchmark.engine.cores import begin
from torchmark.engine.environments import ask_interpreter
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.model.case import Language

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchmark.engine.zygote.cases import PythonCase
    from torchmark.model.case import Case

CASES = materialize(SUITE)
PYTHONS = {"new torch": sys.executable, "old torch": OLD_PYTHON}
CALLS = ("torch.add", "t.add", "F.relu")

FUNCTION, DISPATCH = "__torch_function__", "__torch_dispatch__"
WAYS = {
    "Tensor": [],
    "SubTensor": [f"Tensor's {FUNCTION}"],
    "WithTorchFunction": [f"own {FUNCTION}"],
    "SubWithTorchFunction": [f"own {FUNCTION}", f"Tensor's {FUNCTION}"],
    "TorchFunctionMode": [f"own {FUNCTION}"],
    "TorchDispatchMode": [f"own {DISPATCH}"],
    "SubWithTorchDispatch": [f"own {DISPATCH}"],
}
"""The overrides that one call runs, in order: those of the setup, and Tensor's own default."""

LOOKING = f"""
import sys
ways = []

def look(frame, event, _argument):
    code = frame.f_code
    if event == "call" and code.co_name in ({FUNCTION!r}, {DISPATCH!r}):
        if code.co_filename.startswith("<torchmark snippet"):
            ways.append("own " + code.co_name)
        elif code.co_filename.endswith("torch/_tensor.py"):  # 1.13 has others, that lead to modes
            ways.append("Tensor's " + code.co_name)
"""

LOOKED_AT = """
sys.setprofile(look)
result = STATEMENT
sys.setprofile(None)
print(*ways)
assert isinstance(result, torch.Tensor), result
assert result.tolist() == [EXPECTED], result
"""


@pytest.fixture(scope="module", params=PYTHONS)
def zygote(request: pytest.FixtureRequest) -> Iterator[Zygote]:
    # The first dispatch of a process imports these, in seconds; so all cases share them.
    modules = IMPORTED_BY_DISPATCH if request.param == "new torch" else ()
    with Zygote(
        Launch(interpreter=ask_interpreter(PYTHONS[request.param]), modules=modules)
    ) as started:
        assert started.start()["torch"].startswith("1.") is (request.param == "old torch")
        yield started


@pytest.fixture(params=PYTHONS)
def counting(request: pytest.FixtureRequest) -> Iterator[Zygote]:
    if request.param == "new torch":
        yield request.getfixturevalue("callgrind_zygote")
        return
    launch = Launch(interpreter=ask_interpreter(OLD_PYTHON), under_callgrind=True)
    with Zygote(launch, at_once=2) as started:
        yield started


def as_run(of: Case) -> PythonCase:
    return case(of.stmt, of.setup)


def ways_of(of: Case, zygote: Zygote) -> str:
    """What was called on the way through the statement, as it was printed."""
    expected = "1.0" if "relu" in of.stmt else "2.0"
    stmt = LOOKED_AT.replace("STATEMENT", of.stmt).replace("EXPECTED", expected)
    return zygote.run(case(stmt, of.setup + LOOKING)).stdout


def test_there_are_three_calls_with_seven_kinds_of_input_each() -> None:
    assert [each.label for each in CASES] == [
        ("overrides", call, kind) for call in CALLS for kind in WAYS
    ]
    assert {(each.language, each.num_threads, each.runtime.value) for each in CASES} == {
        (Language.PYTHON, 1, "eager")
    }


def test_the_seeds_four_kinds_come_first_and_the_plain_tensor_before_all() -> None:
    assert tuple(SETUPS)[:4] == SEED_KINDS == tuple(WAYS)[:4]
    assert SEED_KINDS[0] == PLAIN


def test_the_suite_goes_by_its_name() -> None:
    (part,) = load_suite("overrides").parts
    assert tuple(each.case for each in part) == CASES


@pytest.mark.parametrize(
    ("pattern", "labels"),
    [
        ("SubTensor", [("overrides", call, "SubTensor") for call in CALLS]),
        ("t.add SubTensor", [("overrides", "t.add", "SubTensor")]),
        ('torch.add "/ Tensor"', [("overrides", "torch.add", "Tensor")]),
        ("relu TorchDispatchMode", [("overrides", "F.relu", "TorchDispatchMode")]),
    ],
)
def test_a_case_is_picked_by_a_word_or_two(pattern: str, labels: list[tuple[str, ...]]) -> None:
    assert [each.label for each in selected(CASES, pattern)] == labels


@pytest.mark.parametrize("kind", WAYS)
def test_a_case_runs_its_own_override_once_and_computes_the_same(kind: str, zygote: Zygote) -> None:
    for each in CASES:
        if each.label[-1] == kind:
            assert ways_of(each, zygote) == " ".join(WAYS[kind]) + "\n", each.title


def test_a_mode_is_gone_with_its_case(zygote: Zygote) -> None:
    entered = [each for each in CASES if each.label[-1].endswith("Mode")]
    assert len(entered) == 6
    plain = [each for each in CASES if each.label[-1] == PLAIN]
    for mode in entered:
        zygote.run(as_run(mode))
    for each in plain:
        assert ways_of(each, zygote) == "\n"


def test_every_case_is_timed_without_a_word(zygote: Zygote) -> None:
    for each in CASES:
        sample = zygote.sample(as_run(each), limits=QUICK)
        assert all(time > 0 for time in sample.sampling.wall), each.title
        assert (sample.output.stdout, sample.output.stderr) == ("", ""), each.title


def test_overrides_are_counted_too_and_the_plain_tensor_is_the_cheapest(counting: Zygote) -> None:
    """In the counted code too a mode stays active, and counts say so without noise."""
    is_new = not counting.start()["torch"].startswith("1.")
    wanted = [
        each
        for each in CASES
        # On new torch the first dispatch imports torch.compile, in half a minute under valgrind.
        if each.label[1] == "torch.add" and not (is_new and DISPATCH in str(WAYS[each.label[-1]]))
    ]
    futures = {
        each.label[-1]: begin(partial(counting.count, as_run(each), number=50), "count")
        for each in wanted
    }
    counts = {kind: instructions(done.result().out_file) for kind, done in futures.items()}
    assert len(counts) == (5 if is_new else 7)
    plain = counts.pop(PLAIN)
    assert min(counts.values()) > 1.2 * plain, counts
