"""The code that is counted: torch's layout, the user's own lines."""

from __future__ import annotations

import dis
from typing import Any

import pytest

from torchmark_probe.loops.snippets import SnippetSyntaxError, place_of
from torchmark_probe.loops.unrolled import UnrolledCode


def run(
    stmt: str, setup: str = "pass", *, number: int = 1, warmup: int = 0, **names: Any
) -> list[str]:
    """What happened, in order; the statement may say something by `seen.append`."""
    seen: list[str] = []
    UnrolledCode(stmt, setup, {}, number=number, warmup=warmup).run(
        {"seen": seen, **names},
        ready=lambda: seen.append("ready"),
        toggle=lambda: seen.append("toggle"),
    )
    return seen


def test_setup_and_warm_up_come_before_what_is_counted() -> None:
    seen = run("seen.append('run')", "seen.append('setup')", number=2, warmup=3)
    assert seen == ["setup", *["run"] * 3, "ready", "toggle", "run", "run", "toggle"]


@pytest.mark.parametrize("number", [1, 99, 100, 101, 199, 200, 250, 1000])
def test_the_statement_runs_as_often_as_was_asked(number: int) -> None:
    seen = run("seen.append('run')", number=number)
    assert seen.count("run") == number
    assert seen[-1] == "toggle"


@pytest.mark.parametrize(("number", "written"), [(5, 5), (150, 150), (200, 100), (250, 150)])
def test_the_statement_is_written_out_up_to_two_hundred_times(number: int, written: int) -> None:
    code = UnrolledCode("find_me", "pass", {}, number=number, warmup=1)._code
    in_warm_up = 1
    found = [step for step in dis.get_instructions(code) if step.argval == "find_me"]
    assert len(found) == written + in_warm_up


def test_names_of_the_setup_are_globals_of_the_statement() -> None:
    setup = "x = 'found'\ndef f():\n    return x"
    assert run("seen.append(f())", setup, number=3).count("found") == 3


def test_an_empty_statement_and_setup_are_allowed() -> None:
    assert run("# nothing", "", number=2, warmup=1) == ["ready", "toggle", "toggle"]


def test_modules_are_imported_where_the_compiler_sees_it() -> None:
    names: dict[str, Any] = {}
    UnrolledCode("m.sep", "pass", {"m": "os.path"}, number=1, warmup=0).run(
        names, ready=lambda: None, toggle=lambda: None
    )
    assert names["m"].sep == "/"


def test_an_error_shows_the_users_own_line_whichever_copy_it_came_from() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run("n += 1\n1 / (n - 150)", "n = 0", number=199)
    innermost = caught.traceback[-1]
    place = place_of(str(innermost.path), innermost.lineno + 1)
    assert place is not None
    assert (place.part, place.line) == ("statement", 2)


@pytest.mark.parametrize(
    ("stmt", "setup", "part"), [("x = = 1", "pass", "statement"), ("pass", "1 +", "setup")]
)
def test_what_does_not_compile_is_named(stmt: str, setup: str, part: str) -> None:
    with pytest.raises(SnippetSyntaxError) as caught:
        UnrolledCode(stmt, setup, {}, number=1, warmup=0)
    assert caught.value.part == part


def test_what_the_statement_raises_passes_as_it_is() -> None:
    with pytest.raises(StopIteration):
        run("next(iter(()))")
