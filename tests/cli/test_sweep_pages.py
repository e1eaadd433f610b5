"""What `torchmark sweep --html` writes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests import sweep_rows
from torchmark.cli import sweep_pages
from torchmark.cli.sweep_pages import write_page
from torchmark.errors import OutputFileError
from torchmark.report import sweep_page

if TYPE_CHECKING:
    from pathlib import Path

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


def test_a_full_disk_is_told_with_the_file_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sweep_pages, "write_whole", full)
    with pytest.raises(OutputFileError, match=r"out.html .*: No space left.*the same command"):
        write_page(tmp_path / "out.html", ROWS, {})


def test_a_pipe_is_written_and_stays_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_page, "render", lambda *_, **__: "<html>")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        write_page(pipe, ROWS, {})
        assert pipe.is_fifo()
        assert os.read(reader, 100) == b"<html>"
    finally:
        os.close(reader)
