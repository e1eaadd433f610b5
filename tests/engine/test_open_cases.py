"""Cases that go on while they are talked to: sessions and loops, in a real plain zygote."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_cli import site
from tests.engine.zygote_cases import QUICK, c_library, case, is_gone, wait_until
from torchmark.engine.paired.pairing import Side, SideFailedError, _ProcessPair
from torchmark.engine.zygote.cases import NativeCase
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import CaseFailedError, CaseTimeoutError, StatementSyntaxError

if TYPE_CHECKING:
    from torchmark.engine.zygote.cases import Session


def begin_both(a: Session, b: Session, order: list[int], folder: Path, number: int = 10) -> None:
    folder.mkdir(exist_ok=True)
    batons = (folder / "a", folder / "b")
    for baton in batons:
        os.mkfifo(baton)
    a.begin(order, 0, number, batons)
    b.begin(order, 1, number, batons)


def taken(a: Session, b: Session, order: list[int], folder: Path) -> list[list[float]]:
    begin_both(a, b, order, folder)
    return [a.blocks().seconds, b.blocks().seconds]


def test_two_sessions_alternate(plain_zygote: Zygote, tmp_path: Path) -> None:
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


def test_what_the_setup_made_lies_in_huge_pages(plain_zygote: Zygote, tmp_path: Path) -> None:
    """Elsewhere its time would hang on which pages the kernel happened to have."""
    process, pages = tmp_path / "process", tmp_path / "pages"
    write = f"open({str(process)!r}, 'w').write(str(os.getpid()))"
    setup = f"import os; x = torch.ones(3_000_000); {write}"
    with plain_zygote.session(case("x", setup), limits=QUICK):
        memory = Path("/proc", process.read_text(), "smaps_rollup").read_text()
    huge = re.search(r"AnonHugePages: +(\d+) kB", memory)
    assert huge is not None
    assert int(huge[1]) >= 8 * 1024
    look = f"open({str(pages)!r}, 'w').write(open('/proc/self/smaps_rollup').read())"
    plain_zygote.run(case(look, setup))
    assert re.search(r"AnonHugePages: +0 kB", pages.read_text())


def test_a_session_runs_copies_of_the_code_if_its_zygote_was_told_so(tmp_path: Path) -> None:
    file = tmp_path / "maps"
    looks = case(f"open({str(file)!r}, 'w').write(open('/proc/self/maps').read())")
    parts = {}
    for copies in (False, True):
        with (
            Zygote(Launch(copies_code=copies)) as zygote,
            zygote.session(looks, limits=QUICK) as session,
            zygote.session(looks, limits=QUICK) as other,
        ):
            taken(session, other, [0, 1], tmp_path / str(copies))
            lines = file.read_text().splitlines()
        # The parts between copies of its pages are still those of the file.
        parts[copies] = sum(" r-xp " in line and "/libtorch_python" in line for line in lines)
    assert parts[True] > parts[False] == 1


def test_blocks_are_taken_in_the_order_given(plain_zygote: Zygote, tmp_path: Path) -> None:
    """Each run writes its letter, first the one that warms the block up, then the timed one."""
    file = tmp_path / "order"
    letters = [
        case(f"f.write('{name}'); f.flush()", f"f = open({str(file)!r}, 'a')") for name in "ab"
    ]
    with (
        plain_zygote.session(letters[0], limits=QUICK) as one,
        plain_zygote.session(letters[1], limits=QUICK) as other,
    ):
        file.write_text("")
        begin_both(one, other, [1, 0, 0, 1, 0, 1, 1, 0], tmp_path, number=1)
        one.blocks(), other.blocks()
    assert file.read_text() == "".join(2 * letter for letter in "baababba")


@pytest.mark.parametrize("while_others_run", [True, False])
def test_a_session_beside_others_moves_to_its_cores_with_all_its_threads_for_its_blocks(
    plain_zygote: Zygote, tmp_path: Path, *, while_others_run: bool
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
            case("note_where()", setup),
            limits=QUICK,
            cores=[core],
            while_others_run=while_others_run,
        ) as one,
        plain_zygote.session(case("pass"), limits=QUICK) as other,
    ):
        before = file.read_text()
        taken(one, other, [0, 1], tmp_path)
        after = file.read_text()
    everything = sorted(os.sched_getaffinity(0))
    assert before == repr([everything if while_others_run else [core]] * 2)
    assert after == repr([[core], [core]])


def test_a_compiled_statement_alternates_too(plain_zygote: Zygote, tmp_path: Path) -> None:
    native = NativeCase(library=c_library(tmp_path), symbol="torchmark_run_0")
    with (
        plain_zygote.session(native, limits=QUICK) as one,
        plain_zygote.session(case("pass"), limits=QUICK) as other,
    ):
        assert taken(one, other, [0, 1], tmp_path)[0][0] > 0


def telling_its_processes(file: Path) -> str:
    """A setup that starts another process and notes the parent, itself and that one."""
    return f"""
import os, subprocess
sleeper = subprocess.Popen(["sleep", "1000"])
open({str(file)!r}, "w").write(f"{{os.getppid()}} {{os.getpid()}} {{sleeper.pid}}")
"""


def test_its_processes_end_with_a_session(plain_zygote: Zygote, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    with plain_zygote.session(case("pass", telling_its_processes(file)), limits=QUICK):
        parent, *own = map(int, file.read_text().split())
        assert not any(map(is_gone, own))
    wait_until(lambda: all(map(is_gone, own)))
    # No fork in between, and nobody waits for a burial either.
    assert parent == plain_zygote.start()["pid"]
    children = Path(f"/proc/{parent}/task/{parent}/children")
    wait_until(lambda: str(own[0]) not in children.read_text().split())


def test_its_processes_end_with_the_zygote(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    with Zygote() as zygote:
        session = zygote.session(case("pass", telling_its_processes(file)), limits=QUICK)
        own = list(map(int, file.read_text().split()))
        assert not any(map(is_gone, own))
    wait_until(lambda: all(map(is_gone, own)))
    session.close()


def test_a_zygote_that_is_killed_takes_a_session_along(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    endless = telling_its_processes(file) + "while True: pass"
    with ThreadPoolExecutor() as threads, Zygote() as zygote:
        opening = threads.submit(zygote.session, case("pass", endless), limits=QUICK)
        wait_until(lambda: file.exists() and len(file.read_text().split()) == 3)
        own = list(map(int, file.read_text().split()))
        os.kill(own[0], signal.SIGKILL)
        with pytest.raises(CaseFailedError):
            opening.result()
        wait_until(lambda: all(map(is_gone, own)))


def test_many_sessions_that_end_at_once_are_all_buried(plain_zygote: Zygote) -> None:
    sessions = [plain_zygote.session(case("pass"), limits=QUICK) for _ in range(4)]
    for session in sessions:
        session.close()
    zygote = plain_zygote.start()["pid"]
    children = Path(f"/proc/{zygote}/task/{zygote}/children")
    wait_until(lambda: not children.read_text().split())


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
def test_one_that_fails_in_its_blocks_does_not_keep_the_other_waiting(
    plain_zygote: Zygote, tmp_path: Path, fails: str, kind: str
) -> None:
    late = case(f"n += 1\nif n > 10**6: {fails}", "import os\nn = 0")
    order = [0, 1] * 3
    with (
        plain_zygote.session(late, limits=QUICK) as one,
        plain_zygote.session(case("pass"), limits=QUICK) as other,
    ):
        begin_both(one, other, order, tmp_path, number=400_000)
        assert len(other.blocks().seconds) < 3
        with pytest.raises(CaseFailedError) as caught:
            one.blocks()
    assert caught.value.kind == kind


def test_sessions_that_print_without_end_come_to_their_end(
    plain_zygote: Zygote, tmp_path: Path
) -> None:
    """Many times what a pipe holds, on both streams, and the files do not grow with it."""
    setup = f"""
import os, sys
def look():
    with open({str(tmp_path / "sizes")!r}, "a") as sizes:
        sizes.write(f"{{os.fstat(1).st_size}}\\n{{os.fstat(2).st_size}}\\n")
"""
    prints = case("print('y' * 50_000); print('z' * 50_000, file=sys.stderr); look()", setup)
    with (
        plain_zygote.session(prints, limits=QUICK, time_limit=60) as one,
        plain_zygote.session(prints, limits=QUICK, time_limit=60) as other,
    ):
        assert [len(each) for each in taken(one, other, [0, 1] * 20, tmp_path)] == [20, 20]
    sizes = list(map(int, (tmp_path / "sizes").read_text().split()))
    assert len(sizes) > 800
    assert 2**20 < max(sizes) < 2**21


def test_nobody_is_woken_by_what_a_session_prints(plain_zygote: Zygote, tmp_path: Path) -> None:
    """Whoever read the pipe of one side and not of the other made that side slower."""
    file = tmp_path / "kinds"
    kinds = "[stat.S_ISREG(os.fstat(number).st_mode) for number in (1, 2)]"
    looks = case(f"open({str(file)!r}, 'w').write(repr({kinds}))", "import os, stat")
    with plain_zygote.session(looks, limits=QUICK):
        assert file.read_text() == repr([True, True])


def test_the_end_of_what_a_session_printed_is_told_with_its_failure(
    plain_zygote: Zygote, tmp_path: Path
) -> None:
    setup = "import os, sys\nn = 0\nprint('from the setup')"
    late = case("n += 1\nprint(n, 'y' * 5000, file=sys.stderr)\nif n > 2000: os.abort()", setup)
    with (
        plain_zygote.session(late, limits=QUICK) as one,
        plain_zygote.session(case("pass"), limits=QUICK) as other,
    ):
        begin_both(one, other, [0, 1] * 3, tmp_path, number=1000)
        with pytest.raises(CaseFailedError) as caught:
            one.blocks()
    assert caught.value.stdout == "from the setup\n"
    assert caught.value.stderr.startswith("[earlier output left out]\n")
    assert "\n2001 y" in caught.value.stderr
    assert len(caught.value.stderr) < 70_000


def test_a_statement_that_moves_its_output_keeps_it_as_it_wants(
    plain_zygote: Zygote, tmp_path: Path
) -> None:
    """Only our own files are written over."""
    file = tmp_path / "own"
    setup = f"import os; os.dup2(os.open({str(file)!r}, os.O_CREAT | os.O_WRONLY), 1)"
    prints = case("os.write(1, b'y' * 50_000); n += 1", f"{setup}; n = 0")
    with (
        plain_zygote.session(prints, limits=QUICK) as one,
        plain_zygote.session(case("pass"), limits=QUICK) as other,
    ):
        taken(one, other, [0, 1] * 4, tmp_path)
        assert file.stat().st_size > 2**21


def test_a_session_has_a_time_limit(plain_zygote: Zygote) -> None:
    with pytest.raises(CaseTimeoutError):
        plain_zygote.session(case("while True: pass"), limits=QUICK, time_limit=1.0)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("stuck", [0, 1])
def test_of_two_that_alternate_the_one_that_hangs_is_blamed(
    plain_zygote: Zygote, tmp_path: Path, stuck: int, first: int
) -> None:
    """The other waits for it all the time, and its own time is up first or last."""
    file = tmp_path / "now"
    cases = [case("pass"), case("pass")]
    cases[stuck] = case(f"while os.path.exists({str(file)!r}): pass", "import os")
    a, b = (Side(plain_zygote, each) for each in cases)
    pair = _ProcessPair((a, b), first, 0, (), 1.0, 0.01)
    with closing(pair):
        pair.open()
        file.touch()
        with pytest.raises(SideFailedError, match="limit of 1 s") as caught:
            pair.rounds(random.Random(0))
    assert caught.value.is_a is (stuck == 0)


def test_the_process_that_a_loop_names_is_the_one_that_runs_the_statement(
    plain_zygote: Zygote, tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    count = "f.write(f'{os.getpid()}\\n'); f.flush()"
    with plain_zygote.loop(case(count, f"import os; f = open({str(file)!r}, 'a')")) as loop:
        seen = file.stat().st_size
        wait_until(lambda: file.stat().st_size > seen)
        assert set(file.read_text().split()) == {str(loop.pid)}


def test_a_loop_goes_on_until_it_is_stopped(plain_zygote: Zygote, tmp_path: Path) -> None:
    file = tmp_path / "runs"
    with plain_zygote.loop(case("f.write('.'); f.flush()", f"f = open({str(file)!r}, 'a')")) as one:
        warm = file.stat().st_size
        assert warm > 0
        wait_until(lambda: file.stat().st_size > 2 * warm)
        assert one.seconds_per_run > 0
        runs = one.stop()
        assert is_gone(one.pid)
    assert file.stat().st_size - runs <= warm


def test_a_loop_that_prints_goes_on_while_it_is_listened_to(
    plain_zygote: Zygote, tmp_path: Path
) -> None:
    file = tmp_path / "runs"
    setup = f"f = open({str(file)!r}, 'a')"
    with plain_zygote.loop(case("print('y' * 50_000); f.write('.'); f.flush()", setup)) as loop:
        more = file.stat().st_size + 1000
        loop.listen_until(lambda: file.stat().st_size > more)
        assert loop.stop() > 1000


def test_a_compiled_statement_loops_too(plain_zygote: Zygote, tmp_path: Path) -> None:
    native = NativeCase(library=c_library(tmp_path), symbol="torchmark_run_0")
    with plain_zygote.loop(native) as loop:
        assert loop.stop() >= 0
        assert loop.seconds_per_run > 0


def test_the_process_of_a_loop_ends_with_its_block(plain_zygote: Zygote) -> None:
    with plain_zygote.loop(case("pass")) as loop:
        assert not is_gone(loop.pid)
    wait_until(lambda: is_gone(loop.pid))


def test_the_process_of_a_loop_ends_when_the_control_side_is_killed() -> None:
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


def test_a_loop_has_a_time_limit(plain_zygote: Zygote) -> None:
    with pytest.raises(CaseTimeoutError):
        plain_zygote.loop(case("while True: pass"), time_limit=0.5)
