"""What `torchmark sweep --html` writes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests import sweep_rows
from torchmark.cli.sweep_pages import write_page

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ROWS = sweep_rows.sweep({"n": (1, 8)})


def test_pictures_lie_beside_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_page(tmp_path / "out.html", ROWS, {"python": "3.11.7"})
    names = ["out-roofline.png", "out-scaling.png", "out-speedup.png", "out.html"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names
    assert "3.11.7" in (tmp_path / "out.html").read_text()
    told = capsys.readouterr().out
    assert all(name in told for name in names)


def test_without_the_program_that_draws_pngs_there_is_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    write_page(tmp_path / "out.html", ROWS, {})
    assert [file.name for file in tmp_path.iterdir()] == ["out.html"]
    assert "pip install 'torchmark[report]'" in capsys.readouterr().err
