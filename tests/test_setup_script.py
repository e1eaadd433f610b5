"""`scripts/setup.sh` on machines that lack something, played by a PATH of stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REAL = ("bash", "dirname", "touch", "grep", "mkdir", "chmod", "cat")


PYTHON = """
echo "python $*" >> "$LOG"
case "$*" in
  *ensurepip*) exit "${NO_ENSUREPIP:-0}" ;;
  "-m venv .venv")
    mkdir -p .venv/bin
    printf '#!/bin/bash\\n' > .venv/bin/python
    chmod +x .venv/bin/python ;;
esac
"""


class Machine:
    """A directory with the script, and a PATH that has only what is put there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        self.log = root / "log"
        (root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "setup.sh", root / "scripts")
        for tool in REAL:
            real = shutil.which(tool)
            assert real is not None
            (self.bin / tool).symlink_to(real)
        self.add("python3", PYTHON)
        self.add("id", "echo 1000")

    def add(self, name: str, text: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def set_up(self, **environment: str) -> subprocess.CompletedProcess[str]:
        base = {"PATH": str(self.bin), "LOG": str(self.log), "HOME": str(self.root)}
        return subprocess.run(
            [str(self.root / "scripts" / "setup.sh")],
            capture_output=True,
            text=True,
            env=base | environment,
            check=False,
        )

    @property
    def is_ready(self) -> bool:
        return (self.root / ".venv" / ".ready").exists()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


COMMAND = "sudo apt-get update && sudo apt-get install -y"


def test_with_everything_there_it_only_installs_with_pip(machine: Machine) -> None:
    machine.add("valgrind", "")
    machine.add("g++", "")
    done = machine.set_up(CI="true")
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.is_ready


def test_a_user_who_may_not_install_is_given_the_one_command(machine: Machine) -> None:
    machine.add("apt-get", 'echo "apt $*" >> "$LOG"')
    done = machine.set_up()
    assert f"{COMMAND} valgrind g++" in done.stderr
    assert "apt" not in machine.log.read_text()
    assert done.returncode == 0
    assert machine.is_ready, "timing works without them"


def test_with_ci_a_missing_tool_is_a_failure(machine: Machine) -> None:
    done = machine.set_up(CI="true")
    assert done.returncode == 1
    assert COMMAND in done.stderr
    assert not machine.is_ready


def test_root_has_the_missing_ones_installed_and_only_those(machine: Machine) -> None:
    machine.add("id", "echo 0")
    machine.add("g++", "")
    machine.add("apt-get", 'echo "apt $*" >> "$LOG"')
    assert machine.set_up().returncode == 0
    calls = [line for line in machine.log.read_text().splitlines() if line.startswith("apt")]
    assert [call.split()[1] for call in calls] == ["update", "install"]
    assert calls[1].endswith(" valgrind")
    assert machine.is_ready


def test_an_apt_that_fails_ends_in_the_one_command(machine: Machine) -> None:
    machine.add("id", "echo 0")
    machine.add("apt-get", "exit 100")
    done = machine.set_up()
    assert f"{COMMAND} valgrind g++" in done.stderr


def test_without_ensurepip_nothing_can_go_on(machine: Machine) -> None:
    done = machine.set_up(NO_ENSUREPIP="1")
    assert done.returncode == 1
    assert f"{COMMAND} valgrind g++ python3-venv" in done.stderr


def test_the_script_is_executable_in_a_clone() -> None:
    assert os.access(ROOT / "scripts" / "setup.sh", os.X_OK)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_second_call_installs_nothing_but_still_misses_a_tool(machine: Machine) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        (machine.root / name).write_text("")
    assert machine.set_up().returncode == 0
    machine.log.write_text("")
    assert machine.set_up().returncode == 0
    assert "venv" not in machine.log.read_text()
    assert machine.set_up(CI="true").returncode == 1
