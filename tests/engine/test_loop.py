"""A case that runs until it is stopped, in a real plain zygote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_cli import site
from tests.engine.zygote_cases import c_library, case, is_gone, wait_until
from torchmark.engine.zygote.cases import NativeCase
from torchmark.errors import CaseFailedError, CaseTimeoutError, StatementSyntaxError

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.engine.zygote.zygote import Zygote


def test_the_process_that_it_names_is_the_one_that_runs_the_statement(
    plain_zygote: Zygote, tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    count = "f.write(f'{os.getpid()}\\n'); f.flush()"
    with plain_zygote.loop(case(count, f"import os; f = open({str(file)!r}, 'a')")) as loop:
        seen = file.stat().st_size
        wait_until(lambda: file.stat().st_size > seen)
        assert set(file.read_text().split()) == {str(loop.pid)}


def test_it_goes_on_until_it_is_stopped(plain_zygote: Zygote, tmp_path: Path) -> None:
    file = tmp_path / "runs"
    with plain_zygote.loop(case("f.write('.'); f.flush()", f"f = open({str(file)!r}, 'a')")) as one:
        warm = file.stat().st_size
        assert warm > 0
        wait_until(lambda: file.stat().st_size > 2 * warm)
        assert one.seconds_per_run > 0
        runs = one.stop()
        assert is_gone(one.pid)
    assert file.stat().st_size - runs <= warm


def test_a_compiled_statement_loops_too(plain_zygote: Zygote, tmp_path: Path) -> None:
    native = NativeCase(library=c_library(tmp_path), symbol="torchmark_run_0")
    with plain_zygote.loop(native) as loop:
        assert loop.stop() >= 0
        assert loop.seconds_per_run > 0


def test_the_process_ends_with_its_block(plain_zygote: Zygote) -> None:
    with plain_zygote.loop(case("pass")) as loop:
        assert not is_gone(loop.pid)
    wait_until(lambda: is_gone(loop.pid))


def test_the_process_ends_when_the_control_side_is_killed() -> None:
    script = (
        "from torchmark.engine.zygote.cases import PythonCase\n"
        "from torchmark.engine.zygote.zygote import Zygote\n"
        "loop = Zygote().loop(PythonCase(stmt='pass'))\n"
        "print(loop.pid, flush=True)\n"
        "import signal; signal.pause()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": site()},
        text=True,
    ) as control:
        assert control.stdout is not None
        pid = int(control.stdout.readline())
        assert not is_gone(pid)
        control.send_signal(signal.SIGKILL)
    wait_until(lambda: is_gone(pid))


@pytest.mark.parametrize(
    ("stmt", "setup", "kind"),
    [("nowhere", "pass", "raised"), ("pass", "import os; os._exit(3)", "exited")],
)
def test_a_case_that_fails_before_it_is_warm_is_an_error(
    plain_zygote: Zygote, stmt: str, setup: str, kind: str
) -> None:
    with pytest.raises(CaseFailedError) as caught:
        plain_zygote.loop(case(stmt, setup))
    assert caught.value.kind == kind


def test_a_statement_that_does_not_compile_is_told_as_everywhere(plain_zygote: Zygote) -> None:
    with pytest.raises(StatementSyntaxError):
        plain_zygote.loop(case("x ="))


def test_a_case_that_fails_later_says_so_when_it_is_stopped(
    plain_zygote: Zygote, tmp_path: Path
) -> None:
    file = tmp_path / "now"
    late = case(f"if os.path.exists({str(file)!r}): raise KeyError('late')", "import os")
    with plain_zygote.loop(late) as loop:
        file.touch()
        wait_until(lambda: is_gone(loop.pid))
        with pytest.raises(CaseFailedError, match="late"):
            loop.stop()


def test_it_has_a_time_limit(plain_zygote: Zygote) -> None:
    with pytest.raises(CaseTimeoutError):
        plain_zygote.loop(case("while True: pass"), time_limit=0.5)
