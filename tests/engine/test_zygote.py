"""A plainly launched zygote: what a case may do to itself, and to nobody else."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.engine.zygote_cases import QUICK, c_library, case, is_gone, wait_until
from torchmark.engine.environments import ask_interpreter
from torchmark.engine.zygote.cases import NativeCase, PythonCase
from torchmark.engine.zygote.conversation import Conversation
from torchmark.engine.zygote.pool import ZygotePool
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import (
    CaseFailedError,
    CaseTimeoutError,
    MissingToolError,
    MissingTorchError,
    StatementSyntaxError,
    ZygoteError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.engine.zygote.cases import Sample

MEBIBYTE = 1 << 20


def works(zygote: Zygote) -> bool:
    return len(zygote.sample(case("x + x", "x = torch.ones(2)"), limits=QUICK).sampling.wall) > 0


def failure(zygote: Zygote, stmt: str, setup: str = "pass") -> CaseFailedError:
    """The error of a case that is expected to fail; the next one must work."""
    with pytest.raises(CaseFailedError) as caught:
        zygote.sample(case(stmt, setup), limits=QUICK, memory_limit=500 * MEBIBYTE)
    assert works(zygote)
    return caught.value


def test_a_case_is_sampled_and_every_block_comes_back(plain_zygote: Zygote) -> None:
    sample = plain_zygote.sample(case("x + x", "x = torch.ones(2)"), limits=QUICK)
    blocks = len(sample.sampling.wall)
    assert blocks == len(sample.sampling.cpu) == len(sample.sampling.pace) > 0
    assert all(seconds > 0 for seconds in sample.sampling.wall)
    assert sample.sampling.number >= 1


def test_an_exception_travels_with_the_users_own_lines(plain_zygote: Zygote) -> None:
    error = failure(plain_zygote, "y = 1\nf(y)", "def f(n):\n    return n / 0")
    assert error.kind == "raised"
    assert error.traceback == textwrap.dedent("""\
          In the statement, line 2:
            f(y)
          In the setup, line 2:
            return n / 0
        ZeroDivisionError: division by zero""")
    where, _, raised = error.traceback.rpartition("\n")
    assert str(error) == f"the case raised: {raised}\n{where}", "what comes first, then where"


@pytest.mark.parametrize(
    ("stmt", "kind", "says"),
    [
        ("import os; os._exit(7)", "exited", "status 7"),
        ("import sys; sys.exit(7)", "raised", "SystemExit: 7"),
        ("raise KeyboardInterrupt", "raised", "KeyboardInterrupt"),
        ("import os; os.abort()", "crashed", "SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "crashed", "SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "crashed", "SIGKILL"),
        ("bytearray(10**10)", "memory", "MemoryError"),
        ("torch.empty(10**10)", "memory", "allocate"),
        (
            "import os\nos.kill(os.getppid(), 9)\nwhile True: pass",
            "lost",
            "ended the process that watches it",
        ),
    ],
)
def test_a_failing_case_costs_only_itself(
    plain_zygote: Zygote, stmt: str, kind: str, says: str
) -> None:
    error = failure(plain_zygote, stmt)
    assert error.kind == kind
    assert says in str(error)


def test_a_case_that_never_ends_is_stopped_at_its_limit(plain_zygote: Zygote) -> None:
    setup = "import os; print(os.getpid(), flush=True)"
    with pytest.raises(CaseTimeoutError, match=r"limit of 3 s") as caught:
        plain_zygote.sample(case("while True: pass", setup), limits=QUICK, time_limit=3.0)
    assert caught.value.kind == "timeout"
    assert is_gone(int(caught.value.stdout))
    assert works(plain_zygote)


def test_the_processes_of_a_case_end_with_it(plain_zygote: Zygote) -> None:
    setup = "import subprocess; print(subprocess.Popen(['sleep', '1000']).pid)"
    sample = plain_zygote.sample(case("pass", setup), limits=QUICK)
    wait_until(lambda: is_gone(int(sample.output.stdout)))


def test_a_statement_that_does_not_compile_shows_its_line(plain_zygote: Zygote) -> None:
    with pytest.raises(StatementSyntaxError, match="the setup does not compile") as caught:
        plain_zygote.sample(case("pass", "x = 1\nif x\n  y"), limits=QUICK)
    assert (caught.value.lineno, caught.value.text) == (2, "if x\n")
    assert works(plain_zygote)


def test_what_a_case_prints_is_kept_and_never_reaches_the_wire(plain_zygote: Zygote) -> None:
    setup = """
        import ctypes, os, sys
        print('{"class":"Done","version":2}')
        print("to stderr", file=sys.stderr)
        os.write(1, b"past Python\\n")
        ctypes.CDLL(None).printf(b"from C\\n")
        assert sys.stdin.read() == ""
    """
    sample = plain_zygote.sample(case("pass", setup), limits=QUICK)
    assert sorted(sample.output.stdout.splitlines()) == [
        "from C",
        "past Python",
        '{"class":"Done","version":2}',
    ]
    assert sample.output.stderr == "to stderr\n"


def test_what_a_case_printed_before_it_crashed_is_kept(plain_zygote: Zygote) -> None:
    error = failure(plain_zygote, "print('last words'); import os; os.abort()")
    assert error.stdout == "last words\n"


def test_long_output_keeps_both_ends_and_says_what_was_cut(plain_zygote: Zygote) -> None:
    setup = "print('first'); print('x' * 1_000_000); print('last')"
    printed = plain_zygote.sample(case("pass", setup), limits=QUICK).output.stdout
    assert printed.startswith("first\n")
    assert printed.endswith("last\n")
    left_out = 1_000_000 + len("first\n\nlast\n") - 64 * 1024
    assert f"[{left_out} bytes left out]" in printed


def save_script(path: str) -> None:
    """A TorchScript module that doubles, made by another Python: torch warns about it here."""
    code = f"""
        import torch, warnings
        warnings.simplefilter("ignore")
        class Double(torch.nn.Module):
            def forward(self, x):
                return x * 2
        torch.jit.trace(Double(), torch.ones(3, dtype=torch.int64)).save({path!r})
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_globals_are_made_again_in_the_case(plain_zygote: Zygote, tmp_path: Path) -> None:
    tensor, module, script = (str(tmp_path / name) for name in ("t.pt", "m.pt", "s.pt"))
    torch.save(torch.arange(3), tensor)
    torch.save(torch.nn.Linear(2, 1), module)
    save_script(script)
    recipes: dict[str, dict[str, Any]] = {
        "plain": {"kind": "json", "value": [1, "two", None]},
        "literal": {"kind": "literal", "value": "{1: (2, b'3')}"},
        "math": {"kind": "import", "value": "math"},
        "t": {"kind": "torch", "path": tensor},
        "m": {"kind": "pickle", "path": module, "setup": "import math as known"},
        "s": {"kind": "script", "path": script},
    }
    setup = """
        assert plain == [1, "two", None] and literal == {1: (2, b"3")}
        print(t.tolist(), m(t.new_zeros(1, 2, dtype=m.weight.dtype)).shape, s(t).tolist())
        print(known.pi, g)
    """
    sample = plain_zygote.sample(
        PythonCase(stmt="pass", setup=setup, global_setup="g = math.pi", globals=recipes),
        limits=QUICK,
    )
    assert sample.output.stdout.splitlines() == [
        "[0, 1, 2] torch.Size([1, 1]) [0, 2, 4]",
        "3.141592653589793 3.141592653589793",
    ]


def test_an_unknown_kind_of_global_is_named(plain_zygote: Zygote) -> None:
    with pytest.raises(CaseFailedError, match="'odd' has the unknown kind 'socket'"):
        plain_zygote.sample(
            PythonCase(stmt="pass", globals={"odd": {"kind": "socket"}}), limits=QUICK
        )


def test_a_case_has_the_users_directory_and_modules(
    plain_zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "users_own_module.py").write_text("answer = 42")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    setup = "import os, users_own_module; print(os.getcwd(), users_own_module.answer)"
    sample = plain_zygote.sample(case("pass", setup), limits=QUICK)
    assert sample.output.stdout == f"{tmp_path} 42\n"


def test_the_code_of_a_case_may_import_torchmark(plain_zygote: Zygote) -> None:
    """As the user's script does that defines the class of a global."""
    setup = "import torchmark; from torchmark import Compare, Timer; r = Timer('pass').timeit(1)"
    plain_zygote.run(PythonCase(stmt="str(Compare([r]))", setup=setup), time_limit=60)


def test_two_cases_run_at_once(plain_zygote: Zygote, tmp_path: Path) -> None:
    """Each waits for the other, so one after the other they would never end."""
    setup = """
        import os
        open({mine!r}, "w").close()
        while not os.path.exists({other!r}):
            pass
    """
    names = [str(tmp_path / "a"), str(tmp_path / "b")]

    def sampled(names: list[str]) -> Sample:
        mine, other = names
        what = case("pass", setup.format(mine=mine, other=other))
        return plain_zygote.sample(what, limits=QUICK)

    with ThreadPoolExecutor() as threads:
        samples = list(threads.map(sampled, (names, names[::-1])))
    assert all(sample.sampling.wall for sample in samples)


def test_every_case_draws_the_same_random_numbers(plain_zygote: Zygote) -> None:
    setup = "import random; print(random.random(), torch.rand(2).tolist())"
    first, second = (
        plain_zygote.sample(case("pass", setup), limits=QUICK).output.stdout for _ in range(2)
    )
    assert first == second


def test_a_compiled_statement_is_sampled(plain_zygote: Zygote, tmp_path: Path) -> None:
    native = NativeCase(library=c_library(tmp_path), symbol="torchmark_run_0")
    sampling = plain_zygote.sample(native, limits=QUICK).sampling
    assert sampling.wall[0] == pytest.approx(1e-9 * (sampling.number + 1))


def test_a_plain_zygote_does_not_count(plain_zygote: Zygote) -> None:
    with pytest.raises(CaseFailedError, match="does not answer the request 'Count'"):
        plain_zygote.count(case("pass"))


def test_stages_are_told_and_the_environment_describes_itself() -> None:
    stages: list[str] = []
    with Zygote(Launch(threads=1)) as zygote:
        facts = zygote.start(stages.append)
    assert stages == ["importing torch", "warming up"]
    assert facts["torch"] == torch.__version__
    assert facts["executable"] == sys.executable


def test_it_is_moved_before_its_start_and_after_it() -> None:
    cores = sorted(os.sched_getaffinity(0))
    one, other = cores[0], cores[-1]
    with Zygote() as zygote:
        zygote.run_on([one])
        pid = zygote.start()["pid"]
        assert os.sched_getaffinity(pid) == {one}
        zygote.run_on([other])
        assert os.sched_getaffinity(pid) == {other}


def test_a_zygote_that_was_killed_is_started_again() -> None:
    with Zygote() as zygote:
        pid = zygote.start()["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not zygote.is_alive)
        assert works(zygote)
        assert zygote.start()["pid"] != pid


def test_a_zygote_that_dies_during_a_case_says_so_and_is_started_again(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as threads, Zygote() as zygote:
        pid = zygote.start()["pid"]
        started = tmp_path / "started"
        setup = f"open({str(started)!r}, 'w').close()\nwhile True: pass"
        future = threads.submit(zygote.run, case("pass", setup))
        wait_until(started.exists)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ZygoteError, match="ended with status -9"):
            future.result()
        assert works(zygote)


def test_closing_ends_the_cases_too(tmp_path: Path) -> None:
    zygote = Zygote()
    zygote.start()
    pid_file = tmp_path / "pid"
    setup = f"""
        import os
        with open({str(pid_file) + ".part"!r}, "w") as file:
            print(os.getpid(), file=file)
        os.rename({str(pid_file) + ".part"!r}, {str(pid_file)!r})
        while True:
            pass
    """
    with ThreadPoolExecutor() as threads, zygote:
        future = threads.submit(zygote.run, case("pass", setup))
        wait_until(pid_file.exists)
    with pytest.raises(ZygoteError):
        future.result()
    wait_until(lambda: is_gone(int(pid_file.read_text())))
    with pytest.raises(ZygoteError, match="has been closed"):
        zygote.start()


_CONTROL = """
import sys
from tests.engine.zygote_cases import QUICK, case
from torchmark.engine.zygote.zygote import Zygote

zygote = Zygote()
facts = zygote.start()
setup = '''
import os, subprocess
sleeper = subprocess.Popen(["sleep", "1000"])
with open({part!r}, "w") as file:
    print({zygote}, os.getppid(), os.getpid(), sleeper.pid, file=file)
os.rename({part!r}, {path!r})
while True: pass
'''.format(zygote=facts["pid"], part=sys.argv[1] + ".part", path=sys.argv[1])
getattr(zygote, sys.argv[2])(case("pass", setup), limits=QUICK)
"""


@pytest.mark.parametrize("what", ["sample", "session"])
def test_killing_the_control_side_leaves_no_process_behind(tmp_path: Path, what: str) -> None:
    pids_file = tmp_path / "pids"
    control = subprocess.Popen(
        [sys.executable, "-c", _CONTROL, str(pids_file), what],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        wait_until(lambda: pids_file.exists() or control.poll() is not None)
        pids = [int(pid) for pid in pids_file.read_text().split()]
        assert not any(is_gone(pid) for pid in pids)
    finally:
        control.kill()
        control.wait()
    wait_until(lambda: all(is_gone(pid) for pid in pids))


def test_a_missing_valgrind_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        Zygote(Launch(under_callgrind=True)) as zygote,
        pytest.raises(MissingToolError, match="apt-get install valgrind"),
    ):
        zygote.start()


def test_an_interpreter_without_torch_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    with pytest.raises(MissingTorchError, match=f"{python} cannot import torch"):
        ask_interpreter(str(python))


def test_a_program_that_is_no_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(ZygoteError, match="does not run as a Python interpreter"):
        ask_interpreter(str(tmp_path / "none"))


def test_a_zygote_that_cannot_start_tells_its_last_words(tmp_path: Path) -> None:
    with (
        Zygote(Launch(environment=(("PYTHONHOME", str(tmp_path)),))) as zygote,
        pytest.raises(ZygoteError, match="encodings"),
    ):
        zygote.start()


def test_one_warm_zygote_serves_everybody_who_wants_the_same() -> None:
    with ZygotePool() as pool:
        first = pool.zygote(Launch())
        assert pool.start(Launch()) is first
        assert works(first)
    assert not first.is_alive


def test_a_start_ends_at_once_when_the_zygote_is_closed() -> None:
    stages: queue.SimpleQueue[str] = queue.SimpleQueue()
    zygote = Zygote()
    future: Future[object] = Future()

    def start() -> None:
        try:
            future.set_result(zygote.start(stages.put))
        except ZygoteError as error:
            future.set_exception(error)

    threading.Thread(target=start).start()
    assert stages.get() == "importing torch"
    zygote.close()
    with pytest.raises(ZygoteError):
        future.result()
    assert not zygote.is_alive


def test_a_case_can_be_run_for_what_it_leaves_behind(plain_zygote: Zygote, tmp_path: Path) -> None:
    left = tmp_path / "left"
    output = plain_zygote.run(case(f"open({str(left)!r}, 'a').write('once')", "print('hello')"))
    assert output.stdout == "hello\n"
    assert left.read_text() == "once"


def test_threads_are_held_at_what_was_asked() -> None:
    with Zygote(Launch(threads=2)) as zygote:
        setup = "import os; print(torch.get_num_threads(), os.environ['OMP_NUM_THREADS'])"
        assert zygote.sample(case("pass", setup), limits=QUICK).output.stdout == "2 2\n"


def test_what_a_case_reports_comes_back_with_its_times_and_not_with_what_it_printed(
    plain_zygote: Zygote,
) -> None:
    setup = """
        from torchmark_probe.zygote.handlers import report
        report(flops=1, remarks=["first"])
        report(flops=2)
        print("hello")
    """
    sample = plain_zygote.sample(case("pass", setup), limits=QUICK)
    assert sample.output.facts == {"flops": 2, "remarks": ["first"]}
    assert sample.output.stdout == "hello\n"
    assert plain_zygote.run(case("pass", setup)).facts == sample.output.facts
    assert plain_zygote.run(case("pass")).facts == {}, "of another case"


def test_what_cannot_be_done_is_told_apart_from_what_failed(plain_zygote: Zygote) -> None:
    setup = """
        from torchmark_probe.replay.calls import rebuild
        rebuild('{"op": "aten.no_such_operator.default"}')
    """
    with pytest.raises(CaseFailedError, match=r"^torch \S+ has no operator aten") as caught:
        plain_zygote.sample(case("pass", setup), limits=QUICK)
    assert caught.value.kind == "unsupported"


def test_a_function_of_the_probe_is_called_if_it_is_offered(plain_zygote: Zygote) -> None:
    paths = ["torch.func.vmap", "torch.nn.functional.relu", "torch.nowhere.f"]
    found = plain_zygote.call("torchmark_probe.zygote.warmup.torch_has", paths)
    assert found == dict(zip(paths, [True, True, False], strict=True))
    for function in ("os.system", "torchmark_probe.zygote.warmup.facts"):
        with pytest.raises(CaseFailedError, match="offers no function"):
            plain_zygote.call(function, "true")


def test_ctrl_c_ends_the_case_that_is_waited_for(
    plain_zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pid"
    setup = f"import os; open({str(file)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"

    def interrupted(conversation: Conversation) -> None:
        wait_until(lambda: file.exists() and file.read_text() != "")
        conversation.wait(10)  # the process has been told by then
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Conversation, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            plain_zygote.run(case("pass", setup))
    wait_until(lambda: is_gone(int(file.read_text())))
    assert works(plain_zygote)
