"""Traces on the command line: `summary`, and `run` with a trace as its suite."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.capture.traces.files import HEADER, call, tensor, text_of
from tests.cli.test_cli import torchmark_command
from torchmark.cli import cli

SAMPLE = Path(__file__).parent.parent / "data" / "operator_traces" / "hf_GPT2_training.txt"

CNT = """\
Operator: aten.add.Tensor
cnt: 3, ((T([4, 4], f32), T([4, 4], f32, stride=(1, 4))), {})
Operator: aten.no_such_operator.default
cnt: 1, ((T([4], f32),), {})
Operator: aten.bernoulli.default
cnt: 1, ((T([4], f32),), {'generator': <a generator>})
"""


def summary(*args: str) -> str:
    result = CliRunner().invoke(cli, ["summary", *args], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_summary_fits_a_pipe() -> None:
    text = summary(str(SAMPLE))
    assert "822 calls of 25 operators, 63 distinct; order not known" in text
    assert "\033[" not in text
    assert max(len(line) for line in text.splitlines()[2:]) <= 80


def test_a_summary_as_json() -> None:
    record = json.loads(summary(str(SAMPLE), "--json"))
    assert (record["torchmark"], record["calls"], record["distinct"]) == ("trace summary", 822, 63)
    assert sum(each["calls"] for each in record["operators"]) == 822


@pytest.mark.parametrize(
    ("command", "lines", "said"),
    [
        ("summary", [], "is empty"),
        ("summary", [{"trace": {"version": 9}}], "use a newer torchmark"),
        ("list", [HEADER, call("os.system.\x1b[2J", 1)], " has an operator"),
        (
            "run",
            [HEADER, call("aten.neg.default", tensor(2, -3))],
            " has a wrong tensor (shape[1]: expected `int` >= 0)",
        ),
    ],
)
def test_a_bad_file_is_one_message(
    tmp_path: Path, command: str, lines: list[Any], said: str
) -> None:
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress(text_of(lines)))
    done = torchmark_command(command, str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert f" {path} " in done.stderr.partition("\n")[0]
    assert said in done.stderr
    assert "\033" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_run_takes_a_trace_and_every_call_has_its_row(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text(CNT)
    done = torchmark_command("run", "model.txt", "--time", "--csv", "run.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 done, 2 skipped." in done.stdout
    with (tmp_path / "run.csv").open(newline="") as text:
        rows = {row["label"].partition(" / ")[0]: row for row in csv.DictReader(text)}
    assert rows["aten.add.Tensor"]["status"] == "done"
    missing, opaque = rows["aten.no_such_operator.default"], rows["aten.bernoulli.default"]
    assert "has no operator aten.no_such_operator.default" in missing["reason"]
    assert opaque["reason"] == "a trace cannot store its argument of type a generator"
