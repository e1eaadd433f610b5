"""A file that is not whole is an error that names it, and never wrong numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.callgrind.samples import SMALL
from torchmark.callgrind.parse import parse_file, parse_text, read_text
from torchmark.errors import CallgrindFileError

if TYPE_CHECKING:
    from pathlib import Path

TOTAL = 284


@given(length=st.integers(0, len(SMALL)))
def test_a_file_that_was_cut_is_refused(length: int) -> None:
    if length >= len(SMALL) - 1:  # only the last line feed is missing
        assert parse_text(SMALL[:length]).total == TOTAL
    else:
        with pytest.raises(CallgrindFileError):
            parse_text(SMALL[:length])


@given(place=st.integers(0, len(SMALL) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_is_refused_or_leaves_the_total_alone(
    place: int, byte: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "one-byte.out"
    damaged = bytearray(SMALL.encode())
    damaged[place] = byte
    path.write_bytes(damaged)
    try:
        total = parse_file(path).total
    except CallgrindFileError:
        total = TOTAL
    assert total == TOTAL


@given(
    changes=st.dictionaries(st.integers(0, len(SMALL) - 1), st.characters(), max_size=30),
    repeat=st.integers(1, 3),
)
def test_whatever_the_damage_only_one_error_is_raised(changes: dict[int, str], repeat: int) -> None:
    text = "".join(changes.get(index, character) for index, character in enumerate(SMALL)) * repeat
    try:
        profile = parse_text(text)
    except CallgrindFileError:
        return
    assert sum(function.exclusive for function in profile.functions) == profile.total


@given(st.lists(st.sampled_from(SMALL.splitlines(keepends=True)), max_size=40))
def test_lines_in_any_order_are_refused_or_add_up(lines: list[str]) -> None:
    try:
        profile = parse_text("".join(lines))
    except CallgrindFileError:
        return
    assert sum(function.exclusive for function in profile.functions) == profile.total
    assert all(function.inclusive <= profile.total for function in profile.functions)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 0, "empty"),
        ("# callgrind format\nversion: 2\n", 2, "version 1"),
        ("events: Dr Dw\n", 1, "no 'Ir'"),
        ("4 10\n", 1, "before 'events:'"),
        ("totals: 0\n", 1, "before 'events:'"),
        ("events: Ir\n4 10\ntotals: 10\n", 3, "before the first 'fn='"),
        ("events: Ir\nfn=(3)\n", 2, "before it is defined"),
        ("events: Ir\nfn=f\n4 -10\n", 3, "the cost -10 is negative"),
        ("events: Ir\nfn=f\n4 ten\n", 3, "cannot be read"),
        ("events: Ir\ncfn=f\ncalls=1 4\n", 3, "comes before 'fn='"),
        ("events: Ir\nfn=f\ncfn=g\ncalls=-1 4\n", 4, "the number of calls is -1"),
        ("events: Ir\nfn=f\ncfn=g\ncalls=1 4\nfn=g\n", 5, "not followed by its cost"),
        ("events: Ir\nfn=f\n4 10\ngarbage\n", 4, "not a line of the format"),
        ("events: Ir\nfn=f\n4 10\nxy=(1)\n", 4, "not a line of the format"),
        ("events: Ir\nfn=f\n4 10\ntotals: 11\n", 4, "add up to 10, and the totals say 11"),
        ("events: Ir\nfn=f\n4 10\n", 3, "ends without a 'totals:'"),
    ],
)
def test_the_error_names_file_line_and_reason(
    text: str, line: int, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "callgrind.out.7"
    path.write_text(text)
    with pytest.raises(CallgrindFileError) as caught:
        parse_file(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert reason in str(caught.value)


def test_a_part_that_follows_a_whole_one_must_be_whole_too() -> None:
    second = SMALL.replace("part: 1", "part: 2")
    assert parse_text(SMALL + second).total == 2 * TOTAL
    with pytest.raises(CallgrindFileError, match="ends without"):
        parse_text(SMALL + second[: second.index("\nfn=(544)")])


def test_a_run_without_instructions_is_whole() -> None:
    profile = parse_text("events: Ir\nsummary: 0\n\ntotals: 0\n")
    assert (profile.total, profile.functions, profile.calls) == (0, (), ())


def test_text_that_was_kept_gives_the_same_profile(tmp_path: Path) -> None:
    path = tmp_path / "callgrind.out"
    path.write_text(SMALL)
    assert parse_text(read_text(path)) == parse_file(path)


def test_names_that_are_no_utf8_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "callgrind.out"
    path.write_bytes(b"events: Ir\nfn=\xff\xfe\n4 10\ntotals: 10\n")
    assert parse_file(path).functions[0].name == r"\xff\xfe"
    assert parse_text(read_text(path)) == parse_file(path)
