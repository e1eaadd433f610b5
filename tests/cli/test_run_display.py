"""What is seen while a run goes on: on a terminal, in a pipe, and not at all."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from tests import records
from torchmark.cli.run_display import _Terminal, display_for, line_of
from torchmark.engine.execution import Began, Stage
from torchmark.engine.measuring import failed
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric

if TYPE_CHECKING:
    import pytest

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul")
BROKEN = failed(MUL, Metric.TIME, InvalidArgumentError("does not work\nat all"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_a_line_for_each_result(capsys: pytest.CaptureFixture[str]) -> None:
    with display_for(3, quiet=False) as display:
        display.show(Stage("compiling", is_over=False))
        display.show(Began(ADD, Metric.TIME))
        display.show(Stage("compiling", is_over=True))
        display.show(records.time_result(ADD, 1.5e-6))
        display.show(records.count_result(ADD, 100_000))
        display.show(BROKEN)
    out, err = capsys.readouterr()
    assert out == ""
    first, *lines = err.splitlines()
    assert first == "compiling"
    assert lines[0].startswith("[1/3] time   Pointwise / add")
    assert lines[0].endswith("1.500 us")
    assert "instructions" in lines[1]
    assert lines[2].endswith("failed: does not work")
    assert "\x1b" not in err


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with display_for(1, quiet=True) as display:
        display.show(BROKEN)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_what_runs_how_far_it_is_and_what_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    display = display_for(10, quiet=False)
    assert isinstance(display, _Terminal)
    with display:
        display.show(Began(ADD, Metric.INSTRUCTIONS))
        display.show(Began(MUL, Metric.TIME))
        display.show(BROKEN)
        display.show(Stage("compiling", is_over=False))
        console = display._console
        with console.capture() as captured:
            console.print(display._picture())
    picture = captured.get()
    assert "1 of 10, 1 failed" in picture
    assert "counting Pointwise / add" in picture
    assert "compiling" in picture
    assert "timing" not in picture, "what has ended is gone"
    assert "does not work" in screen.getvalue()


def test_escapes_of_a_case_do_not_reach_the_terminal() -> None:
    evil = records.case("g", "\x1b[31mred")
    assert "\x1b" not in line_of(failed(evil, Metric.TIME, InvalidArgumentError("\x1b[2J")))
