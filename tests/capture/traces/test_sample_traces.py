"""The claim about the sample traces, on the files themselves."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
METRIC = runpy.run_path(str(ROOT / "metrics" / "sample_traces.py"))
WANTED, result_of = METRIC["WANTED"], METRIC["result_of"]
FILES = sorted((ROOT / "tests" / "data" / "operator_traces").glob("*.txt"))


def test_there_are_four() -> None:
    assert len(FILES) == 4


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_they_parse_whole_and_build_on_meta(file: Path) -> None:
    result = result_of(file)
    assert result.parsed == result.records
    assert result.built >= WANTED * result.records, result.reasons
    assert result.ran >= WANTED * result.records, result.reasons


def test_an_operator_that_is_gone_is_a_row_that_says_so(tmp_path: Path) -> None:
    file = tmp_path / "old.txt"
    file.write_text(
        "Operator: aten.gone_with_the_wind.default\ncnt: 1, ((T([2], f16),), {})\n"
        "Operator: aten.neg.default\ncnt: 1, ((T([2], f16),), {})\n"
    )
    result = result_of(file)
    assert (result.parsed, result.built) == (2, 1)
    (reason,) = result.reasons
    assert "has no operator aten.gone_with_the_wind.default" in reason
