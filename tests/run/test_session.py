"""A case that runs block by block, in a real plain zygote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.run.zygote_cases import QUICK, c_library, case, is_gone, wait_until
from torchmark.errors import CaseFailedError, CaseTimeoutError
from torchmark.run.zygote import NativeCase, Zygote

if TYPE_CHECKING:
    from pathlib import Path


def test_two_sessions_take_turns(plain_zygote: Zygote) -> None:
    small, large = case("x + x", "x = torch.ones(4)"), case("x + x", "x = torch.ones(100_000)")
    with (
        plain_zygote.session(small, limits=QUICK) as one,
        plain_zygote.session(large, limits=QUICK) as other,
    ):
        assert one.number > other.number
        for _ in range(3):
            quick, slow = one.run(10), other.run(10)
            assert 0 < quick.wall < slow.wall
            assert quick.pace > 0
            assert slow.cpu > 0


def test_a_compiled_statement_has_sessions_too(plain_zygote: Zygote, tmp_path: Path) -> None:
    native = NativeCase(library=c_library(tmp_path), symbol="torchmark_run_0")
    with plain_zygote.session(native, limits=QUICK) as session:
        assert session.run(100).wall > 0


def test_the_process_ends_with_its_session(plain_zygote: Zygote, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    setup = f"import os; open({str(file)!r}, 'w').write(str(os.getpid()))"
    with plain_zygote.session(case("pass", setup), limits=QUICK) as session:
        session.run(1)
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
        assert session.run(1).wall >= 0


def test_what_fails_later_fails_in_its_block(plain_zygote: Zygote) -> None:
    late = case("n += 1\nif n == 10**6: raise KeyError('late')", "n = 0")
    with plain_zygote.session(late, limits=QUICK) as session:
        session.run(1)
        with pytest.raises(CaseFailedError, match="KeyError: 'late'"):
            session.run(10**6)


def test_a_session_has_a_time_limit(plain_zygote: Zygote) -> None:
    with pytest.raises(CaseTimeoutError):
        plain_zygote.session(case("while True: pass"), limits=QUICK, time_limit=1.0)
