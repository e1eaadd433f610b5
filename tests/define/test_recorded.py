"""Traces as suites: one case for each distinct call, with nothing in it that is evaluated."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.capture.traces.files import HEADER, PLACE, call, step, tensor, written
from torchmark.capture.traces.loading import load_trace
from torchmark.define.recorded import definitions_of
from torchmark.define.suites.loading import cases_of, load_suite
from torchmark.engine.zygote.cases import PythonCase
from torchmark.errors import CaseFailedError, TraceFileError, TraceNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.engine.zygote.zygote import Zygote
    from torchmark.model.case import Case

CNT = """\
Operator: aten.add.Tensor
cnt: 3, ((T([4, 4], f32), T([4, 4], f32, stride=(1, 4))), {'alpha': 2})
Operator: aten.no_such_operator.default
cnt: 1, ((T([4], f32),), {})
Operator: aten.neg.default
cnt: 1, ((T([1099511627776], f32),), {})
Operator: aten.bernoulli.default
cnt: 1, ((T([4], f32),), {'generator': <a generator>})
"""


@pytest.fixture
def cnt_file(tmp_path: Path) -> Path:
    path = tmp_path / "model.txt"
    path.write_text(CNT)
    return path


def cases_in(path: Path) -> dict[str, Case]:
    return {case.label[0]: case for case in cases_of([load_suite(str(path))])}


def test_each_distinct_call_is_a_case_with_a_label_that_people_read(cnt_file: Path) -> None:
    cases = cases_in(cnt_file)
    add = cases["aten.add.Tensor"]
    assert add.title == (
        "aten.add.Tensor / float32[4, 4], float32[4, 4] strides (1, 4), alpha=2 · Python"
    )
    assert add.stmt == "op(*args, **kwargs)"
    assert len(cases) == 4


def test_a_call_that_no_trace_can_hold_is_skipped_with_its_reason(cnt_file: Path) -> None:
    skips = {op: case.skip for op, case in cases_in(cnt_file).items()}
    assert skips.pop("aten.bernoulli.default") == (
        "a trace cannot store its argument of type a generator"
    )
    assert set(skips.values()) == {None}


def test_calls_that_look_the_same_have_labels_of_their_own(tmp_path: Path) -> None:
    lines = [HEADER, PLACE, *(call("aten.neg.default", tensor(2, offset=n)) for n in range(3)),
             call("aten.seed.default", 1), step(0)]  # fmt: skip
    labels = list(definitions_of(load_trace(written(tmp_path, lines))))
    assert labels[:3] == [
        ("aten.neg.default", "float32[2]"),
        ("aten.neg.default", "float32[2] #2"),
        ("aten.neg.default", "float32[2] #3"),
    ]
    assert len(cases_of([load_suite(str(written(tmp_path, lines)))])) == 4


def test_the_order_of_the_calls_is_kept(cnt_file: Path) -> None:
    trace = load_trace(cnt_file)
    found = definitions_of(trace)
    assert len(found) == 4
    assert [call.op for call in trace.calls] == [label[0] for label in found]


def test_text_in_a_call_cannot_leave_its_quotes(tmp_path: Path) -> None:
    hostile = "'''\n\"\"\"\\\nimport os; os.abort()\x00\u2028\ud800{}{0}"
    lines = [HEADER, call("aten.einsum.default", hostile)]
    (definition,) = definitions_of(load_trace(written(tmp_path, lines))).values()
    assert definition.setup.isascii()
    tree = ast.parse(definition.setup)
    kinds = [type(statement).__name__ for statement in tree.body]
    assert kinds == ["ImportFrom", "Expr", "Assign", "Assign"]


def test_the_cases_run_where_the_probe_is(cnt_file: Path, plain_zygote: Zygote) -> None:
    said: dict[str, CaseFailedError] = {}
    for op, case in cases_in(cnt_file).items():
        try:
            plain_zygote.run(PythonCase(stmt=case.stmt, setup=case.setup))
        except CaseFailedError as error:
            said[op] = error
    assert "aten.add.Tensor" not in said
    assert {error.kind for error in said.values()} == {"unsupported"}, "nothing is broken"
    missing = str(said["aten.no_such_operator.default"])
    assert missing.endswith("has no operator aten.no_such_operator.default")
    assert re.search(r"[48]\.[48] TB", str(said["aten.neg.default"]))


def test_a_name_like_that_of_a_trace_is_never_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('the script has run')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("train.jsonl", "train.jsonl.gz", "train.txt", "train.json"):
        with pytest.raises(TraceNotFoundError, match=f"no file {name}"):
            load_suite(name)


def test_a_file_that_is_neither_python_nor_a_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("remember the milk\n")
    with pytest.raises(TraceFileError, match="is not a trace"):
        load_suite(str(path))


def test_a_trace_is_listed_without_torch(cnt_file: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from torchmark.cli import cli\n"
        f"cli.main(['list', {str(cnt_file)!r}], standalone_mode=False)\n"
        f"cli.main(['summary', {str(cnt_file)!r}], standalone_mode=False)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "4 cases: 4 Python; 4 explicit; 1 skipped" in done.stdout
    assert "6 calls of 4 operators, 4 distinct" in done.stdout
