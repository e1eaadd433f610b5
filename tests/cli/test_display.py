"""What is seen while a run goes on: on a terminal, in a pipe, and not at all."""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING

from tests import ab_records, records
from torchmark.cli.display import StatusLine, _Terminal, make_display
from torchmark.engine.measuring import failed_result
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric
from torchmark.model.run import Began, Note, Stage
from torchmark.report.names import headline_of

if TYPE_CHECKING:
    import pytest

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul")
BROKEN = failed_result(MUL, Metric.TIME, InvalidArgumentError("does not work\nat all"))
RUN = records.run_of(ADD, MUL)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_a_line_for_each_result(capsys: pytest.CaptureFixture[str]) -> None:
    with make_display(quiet=False) as display:
        display.hear(RUN)
        display.hear(Stage(text="compiling"))
        display.hear(Began(case=ADD, metric=Metric.TIME))
        display.hear(Stage(text="compiling", is_over=True))
        display.hear(records.time_result(ADD, 1.5e-6))
        display.hear(records.count_result(ADD, 100_000))
        display.hear(BROKEN)
    out, err = capsys.readouterr()
    assert out == ""
    announced, first, *lines = err.splitlines()
    assert announced == f"run {RUN.id}: 4 measurements"
    assert first == "compiling"
    assert lines[0].startswith("[1/4] time   Pointwise / add")
    assert lines[0].endswith("1.500 us")
    assert "instructions" in lines[1]
    assert lines[2].endswith("failed: does not work")
    assert "\x1b" not in err


def test_a_control_is_shown_and_does_not_count_as_one_of_those_planned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    timed = ab_records.timed(ADD, 1.5)
    run = ab_records.run_of(plan=(ab_records.planned(ADD), ab_records.planned(MUL)))
    with make_display(quiet=False) as display:
        display.hear(run)
        display.hear(timed)
        display.hear(ab_records.controlled(ADD))
    _, first, control = capsys.readouterr().err.splitlines()
    assert first.startswith("[1/2] time   Pointwise / add")
    assert first.endswith(": B/A 1.5000")
    assert control.startswith("[1/2] control  Pointwise / add")
    assert control.endswith(": A/A 1.0000"), "nothing of B is in it"


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with make_display(quiet=True) as display:
        display.hear(BROKEN)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_what_runs_how_far_it_is_and_what_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    display = make_display(quiet=False)
    assert isinstance(display, _Terminal)
    with display:
        display.hear(RUN)
        display.hear(Began(case=ADD, metric=Metric.INSTRUCTIONS))
        display.hear(Began(case=MUL, metric=Metric.TIME))
        display.hear(BROKEN)
        display.hear(Stage(text="compiling"))
        console = display._console
        with console.capture() as captured:
            console.print(display._picture())
    picture = captured.get()
    assert "1 of 4, 1 failed" in picture
    assert "counting Pointwise / add" in picture
    assert "compiling" in picture
    assert "timing" not in picture, "what has ended is gone"
    assert "does not work" in screen.getvalue()


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "dumb")
    with make_display(quiet=False) as display:
        display.hear(RUN)
        display.hear(Note(text="a note"))
        display.hear(records.time_result(ADD, 1.5e-6))
    with StatusLine() as line:
        line.tell("importing torch")
        line.tell("drawing\na.svg")
    announced, note, result, *status = screen.getvalue().splitlines()
    assert (announced, note) == (f"run {RUN.id}: 4 measurements", "a note")
    assert result.startswith("[1/4] time   Pointwise / add")
    assert status == ["importing torch", "drawing a.svg"]
    assert not set(screen.getvalue()) & set("\x1b\r")


def test_no_color_means_no_colours_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    with make_display(quiet=False) as display:
        display.hear(RUN)
        display.hear(BROKEN)
    assert "does not work" in screen.getvalue()
    assert not re.search(r"\x1b\[(3[0-7]|9[0-7]|38;|1;3)", screen.getvalue())


def test_notes_and_status_lines_do_not_bring_escapes_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with make_display(quiet=False) as display:
        display.hear(Note(text="a \x1b]0;pwned\x07note\x9b2J"))
    with StatusLine() as line:
        line.tell("looking at \x1b[31mred\n\x9b2J")
    assert "pwned" not in screen.getvalue()
    assert "\x9b" not in screen.getvalue()
    assert "\x1b[31m" not in screen.getvalue()
    assert "looking at red 2J …" in screen.getvalue()


def test_escapes_of_a_case_do_not_reach_the_terminal() -> None:
    evil = records.case("g", "\x1b[31mred")
    assert "\x1b" not in headline_of(
        failed_result(evil, Metric.TIME, InvalidArgumentError("\x1b[2J"))
    )
