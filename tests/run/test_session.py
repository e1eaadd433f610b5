"""Two cases that take turns, in a real plain zygote."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.run.zygote_cases import QUICK, c_library, case, is_gone, wait_until
from torchmark.errors import CaseFailedError, CaseTimeoutError
from torchmark.run.case_records import NativeCase

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.run.session import Session
    from torchmark.run.zygote import Zygote


def take_turns(a: Session, b: Session, turns: list[int], folder: Path, number: int = 10) -> None:
    batons = (folder / "a", folder / "b")
    for baton in batons:
        os.mkfifo(baton)
    a.begin(turns, 0, number, batons)
    b.begin(turns, 1, number, batons)


def taken(a: Session, b: Session, turns: list[int], folder: Path) -> list[list[float]]:
    take_turns(a, b, turns, folder)
    return [a.blocks(), b.blocks()]


def test_two_sessions_take_their_turns(plain_zygote: Zygote, tmp_path: Path) -> None:
    small, large = case("x + x", "x = torch.ones(4)"), case("x + x", "x = torch.ones(3_000_000)")
    with (
        plain_zygote.session(small, limits=QUICK) as one,
        plain_zygote.session(large, limits=QUICK) as other,
    ):
        assert one.number > other.number
        quick, slow = taken(one, other, [0, 1, 1, 0, 0, 1], tmp_path)
    assert len(quick) == len(slow) == 3
    assert min(*quick, *slow) > 0
    # A pause of the machine may hit any block, but not the fastest of several.
    assert min(quick) < min(slow)


def test_turns_are_taken_in_the_order_given(plain_zygote: Zygote, tmp_path: Path) -> None:
    """Each block writes its letter; the file shows who ran when."""
    file = tmp_path / "order"
    letters = [
        case(f"f.write('{name}'); f.flush()", f"f = open({str(file)!r}, 'a')") for name in "ab"
    ]
    with (
        plain_zygote.session(letters[0], limits=QUICK) as one,
        plain_zygote.session(letters[1], limits=QUICK) as other,
    ):
        file.write_text("")
        take_turns(one, other, [1, 0, 0, 1, 0, 1, 1, 0], tmp_path, number=1)
        one.blocks(), other.blocks()
    assert file.read_text() == "baababba"


@pytest.mark.parametrize("beside", [True, False])
def test_a_session_beside_others_moves_to_its_cores_with_all_its_threads_when_its_turns_come(
    plain_zygote: Zygote, tmp_path: Path, *, beside: bool
) -> None:
    core = min(os.sched_getaffinity(0))
    file = tmp_path / "where"
    setup = f"""
import os, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
def note_where():
    threads = map(int, os.listdir("/proc/self/task"))
    with open({str(file)!r}, "w") as note:
        note.write(repr([sorted(os.sched_getaffinity(thread)) for thread in threads]))
"""
    with (
        plain_zygote.session(
            case("note_where()", setup), limits=QUICK, cores=[core], beside=beside
        ) as one,
        plain_zygote.session(case("pass"), limits=QUICK) as other,
    ):
        before = file.read_text()
        taken(one, other, [0, 1], tmp_path)
        after = file.read_text()
    everything = sorted(os.sched_getaffinity(0))
    assert before == repr([everything if beside else [core]] * 2)
    assert after == repr([[core], [core]])


def test_a_compiled_statement_takes_turns_too(plain_zygote: Zygote, tmp_path: Path) -> None:
    native = NativeCase(library=c_library(tmp_path), symbol="torchmark_run_0")
    with (
        plain_zygote.session(native, limits=QUICK) as one,
        plain_zygote.session(case("pass"), limits=QUICK) as other,
    ):
        assert taken(one, other, [0, 1], tmp_path)[0][0] > 0


def test_the_process_ends_with_its_session(plain_zygote: Zygote, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    setup = f"import os; open({str(file)!r}, 'w').write(str(os.getpid()))"
    with plain_zygote.session(case("pass", setup), limits=QUICK):
        pid = int(file.read_text())
        assert not is_gone(pid)
    wait_until(lambda: is_gone(pid))


@pytest.mark.parametrize(
    ("stmt", "setup", "kind"),
    [
        ("nowhere", "pass", "raised"),
        ("pass", "import os; os._exit(3)", "exited"),
        ("import os; os.abort()", "pass", "crashed"),
    ],
)
def test_a_case_that_fails_is_an_error_and_the_next_one_works(
    plain_zygote: Zygote, stmt: str, setup: str, kind: str
) -> None:
    with pytest.raises(CaseFailedError) as caught:
        plain_zygote.session(case(stmt, setup), limits=QUICK)
    assert caught.value.kind == kind
    with plain_zygote.session(case("pass"), limits=QUICK) as session:
        assert session.number > 0


@pytest.mark.parametrize(
    ("fails", "kind"), [("raise KeyError('late')", "raised"), ("os.abort()", "crashed")]
)
def test_one_that_fails_in_its_turns_does_not_keep_the_other_waiting(
    plain_zygote: Zygote, tmp_path: Path, fails: str, kind: str
) -> None:
    late = case(f"n += 1\nif n > 10**6: {fails}", "import os\nn = 0")
    turns = [0, 1] * 3
    with (
        plain_zygote.session(late, limits=QUICK) as one,
        plain_zygote.session(case("pass"), limits=QUICK) as other,
    ):
        take_turns(one, other, turns, tmp_path, number=400_000)
        assert len(other.blocks()) < 3
        with pytest.raises(CaseFailedError) as caught:
            one.blocks()
    assert caught.value.kind == kind


def test_a_session_has_a_time_limit(plain_zygote: Zygote) -> None:
    with pytest.raises(CaseTimeoutError):
        plain_zygote.session(case("while True: pass"), limits=QUICK, time_limit=1.0)
