"""Commits are built in worktrees of their own; the checkout is as it was, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_cli import HEEDING_CTRL_C, site
from tests.engine.zygote_cases import wait_until
from tests.repositories import Checkout, make_checkout
from torchmark.engine import builds
from torchmark.engine.builds import Build, build_commit, find_build
from torchmark.engine.environments import activate_environment
from torchmark.engine.files import take_lock
from torchmark.engine.repository import Repository, find_repository
from torchmark.errors import BuildFailedError, RepositoryError, UnknownRevisionError
from torchmark.files import cache_directory
from torchmark.model.run import Stage

if TYPE_CHECKING:
    from pathlib import Path

NOTE = "echo $TORCHMARK_SIDE $TORCHMARK_COMMIT >> built"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout in the middle of work: changed, staged, untracked and stashed files."""
    made = make_checkout(tmp_path / "work")
    made.write({"src/lists/more.py": "first\n"})
    made.git("add", "--all")
    made.git("stash")
    made.write({"README.md": "changed\n", "src/lists/staged.py": "staged\n"})
    made.git("add", "src/lists/staged.py")
    made.write({"untracked.txt": "mine\n"})
    return made


@pytest.fixture
def repository(checkout: Checkout) -> Repository:
    return find_repository(checkout.root)


def build(repository: Repository, setup: str = NOTE, *, side: str = "head") -> Build:
    return build_commit(repository, repository.commit("HEAD"), setup, side=side)


def test_the_setup_command_runs_in_the_commit_with_its_variables(
    checkout: Checkout, repository: Repository
) -> None:
    before = checkout.state()
    made = build(repository, f"{NOTE}; mkdir $TORCHMARK_ENV; pwd; cat README.md", side="base")
    assert (made.tree / "built").read_text() == f"base {checkout.first}\n"
    assert (made.folder / "env").is_dir()
    assert made.log.read_text() == f"{made.tree}\nLists.\n", "the commit, not the working tree"
    assert cache_directory().resolve() in made.tree.parents
    assert made.folder.stat().st_mode & 0o077 == 0
    assert checkout.state() == before
    assert checkout.worktrees() == [str(checkout.root), str(made.tree)]


def test_a_commit_is_built_once_for_each_setup_command(
    checkout: Checkout, repository: Repository
) -> None:
    first = build(repository)
    again = build(repository, side="base")
    assert (again.tree, again.side) == (first.tree, "base")
    assert (first.tree / "built").read_text().count("\n") == 1
    assert build(repository, f"{NOTE}; true").tree != first.tree
    head = repository.commit("HEAD")
    found = find_build(repository, head, NOTE)
    assert found is not None
    assert found.tree == first.tree
    assert find_build(repository, head, "other") is None


def test_a_build_that_was_deleted_is_made_again(checkout: Checkout, repository: Repository) -> None:
    first = build(repository)
    checkout.git("worktree", "remove", "--force", str(first.tree))
    assert build(repository).tree.is_dir()


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ("echo one; echo the reason >&2; exit 3", "failed with status 3"),
        ("echo the reason; false; echo on", "failed with status 1"),
        ("echo the reason; false | cat; echo on", "failed with status 1"),
        ("echo the reason; read answer", "failed with status 1"),
    ],
)
def test_a_failed_build_shows_the_end_of_its_log_and_leaves_nothing(
    checkout: Checkout, repository: Repository, setup: str, said: str
) -> None:
    before = checkout.state()
    with pytest.raises(BuildFailedError, match=said) as caught:
        build(repository, setup)
    lines = str(caught.value).splitlines()
    assert "the reason" in lines
    assert "on" not in lines
    log = cache_directory().resolve() / "builds" / lines[-1].rpartition("/")[2]
    assert lines[-1] == f"The whole log is in {log}"
    assert "the reason" in log.read_text()
    assert checkout.state() == before
    assert checkout.worktrees() == [str(checkout.root)]
    assert not [each for each in log.parent.iterdir() if each.is_dir()]


def test_a_build_that_never_ends_is_stopped_with_its_children(
    checkout: Checkout, repository: Repository, tmp_path: Path
) -> None:
    child = tmp_path / "child"
    setup = f"(echo $BASHPID > {child}; sleep 600) & wait"
    with pytest.raises(BuildFailedError, match=r"did not end within 0\.5 s"):
        build_commit(repository, repository.commit("HEAD"), setup, time_limit=0.5)
    pid = int(child.read_text())
    wait_until(lambda: is_ended(pid))
    assert checkout.worktrees() == [str(checkout.root)]


def is_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


_BUILD = """
import sys
from pathlib import Path
from torchmark.engine.builds import build_commit
from torchmark.engine.repository import find_repository
repository = find_repository(Path(sys.argv[1]))
build_commit(repository, repository.commit("HEAD"), sys.argv[2])
"""


def build_in_process(checkout: Checkout, setup: str) -> subprocess.Popen[str]:
    command = [*HEEDING_CTRL_C, sys.executable, "-c", _BUILD, str(checkout.root), setup]
    environment = os.environ | {"PYTHONPATH": site()}
    return subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_is_not_taken_for_a_finished_one(
    checkout: Checkout, repository: Repository, tmp_path: Path, number: signal.Signals
) -> None:
    before = checkout.state()
    fifo, begun = tmp_path / "fifo", tmp_path / "begun"
    os.mkfifo(fifo)
    setup = f"echo x >> begun; touch {begun}; test -e {tmp_path}/pass || cat {fifo}"
    process = build_in_process(checkout, setup)
    wait_until(begun.exists)
    process.send_signal(number)
    process.communicate()
    assert process.returncode != 0
    assert checkout.state() == before
    assert find_build(repository, repository.commit("HEAD"), setup) is None
    if number is signal.SIGINT:
        assert checkout.worktrees() == [str(checkout.root)]
    (tmp_path / "pass").touch()
    made = build(repository, setup)
    assert (made.tree / "begun").read_text() == "x\n", "nothing of the first attempt"
    assert checkout.worktrees() == [str(checkout.root), str(made.tree)]
    assert checkout.state() == before
    if number is signal.SIGKILL:  # its setup command lives on, and waits
        fifo.write_text("end\n")


def test_two_processes_do_not_build_the_same_at_once(
    checkout: Checkout, repository: Repository, tmp_path: Path
) -> None:
    fifo, begun = tmp_path / "fifo", tmp_path / "begun"
    os.mkfifo(fifo)
    setup = f"echo x >> {begun}; test $(wc -l < {begun}) != 1 || cat {fifo} > built"
    process = build_in_process(checkout, setup)
    wait_until(begun.exists)
    heard: list[str] = []

    def hear(stage: Stage) -> None:
        # The first build ends only when this one waits for it.
        threading.Thread(target=fifo.write_text, args=("done",)).start()
        heard.append(stage.text)

    made = build_commit(repository, repository.commit("HEAD"), setup, progress=hear)
    assert len(heard) == 1
    assert heard[0].startswith("waiting for another process, which builds")
    assert process.communicate()[1] == ""
    assert (made.tree / "built").read_text() == "done"
    assert begun.read_text() == "x\n"


def test_old_builds_are_removed_except_those_that_may_be_in_use(
    checkout: Checkout, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "KEPT", 2)
    made = [build(repository, f"{NOTE} # {number}") for number in range(4)]
    assert all(each.tree.is_dir() for each in made), "all were used today"
    for number, each in enumerate(made):
        marker = each.log.with_suffix(".json")
        os.utime(marker, (1_000_000 + number, 1_000_000 + number))
    held = take_lock(made[0].log.with_suffix(".lock"))
    assert held is not None
    newest = build(repository, f"{NOTE} # new")
    os.close(held)
    assert [each.tree.is_dir() for each in made] == [True, False, True, True]
    assert str(newest.tree) in checkout.worktrees()
    assert str(made[1].tree) not in checkout.worktrees()


def test_a_cache_that_was_deleted_leaves_no_worktree_behind(
    checkout: Checkout, repository: Repository, tmp_path: Path
) -> None:
    """The user's own worktrees stay in the list, although one of them is not there at present."""
    mine = tmp_path / "elsewhere"
    checkout.git("worktree", "add", "--quiet", "-b", "mine", str(mine))
    gone = build(repository)
    for folder in (gone.folder, mine):
        folder.rename(folder.with_name("away"))
    gone.log.with_suffix(".json").unlink()
    made = build(repository, "true")
    assert sorted(checkout.worktrees()) == sorted([str(checkout.root), str(mine), str(made.tree)])


def test_hooks_and_the_index_of_a_hook_are_not_used(
    checkout: Checkout, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`git commit` runs its hooks with GIT_INDEX_FILE and GIT_DIR, which name the user's own."""
    hook = checkout.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hooked\n")
    hook.chmod(0o755)
    before = checkout.state()
    monkeypatch.setenv("GIT_DIR", str(checkout.root / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(checkout.root / ".git" / "index"))
    made = build(repository, "git rm --quiet README.md; git rev-parse --show-toplevel")
    assert made.log.read_text().strip() == str(made.tree)
    assert not (made.tree / "hooked").exists()
    assert checkout.state() == before


def test_without_a_virtual_environment_the_commit_is_on_the_python_path(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/before")
    made = build(repository)
    found = dict(activate_environment("A", made.activation()).variables)
    assert found["PYTHONPATH"] == f"{made.tree}/src:{made.tree}:/before"


def test_a_virtual_environment_of_the_setup_command_is_activated(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    setup = "mkdir -p $TORCHMARK_ENV/bin; echo 'export HERE=yes' > $TORCHMARK_ENV/bin/activate"
    made = build(repository, setup)
    assert dict(activate_environment("A", made.activation()).variables) == {"HERE": "yes"}


def test_an_activation_command_has_the_variables_but_does_not_pass_them_on(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    made = build(repository, side="base")
    command = made.activation("export HERE=$TORCHMARK_SIDE:$TORCHMARK_COMMIT:$TORCHMARK_TREE")
    found = dict(activate_environment("A", command).variables)
    assert found == {"HERE": f"base:{made.commit.id}:{made.tree}"}


def test_a_cache_that_cannot_be_written_is_named(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BuildFailedError, match="which cannot be created: Not a directory"):
        build(repository)


def test_a_folder_outside_of_git_is_named(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="is not in the working tree of a git repository"):
        find_repository(tmp_path)


@pytest.mark.parametrize("revision", ["nowhere", "", "--all", "HEAD:README.md"])
def test_an_unknown_revision_is_named(repository: Repository, revision: str) -> None:
    with pytest.raises(UnknownRevisionError, match="has no commit"):
        repository.commit(revision)


def test_changed_files_have_all_their_names(checkout: Checkout) -> None:
    checkout.git("reset", "--quiet", "--hard")
    checkout.git("mv", "README.md", "odd ‘name’\nof two lines.md")
    checkout.commit("Rename", {"new.py": ""})
    repository = find_repository(checkout.root / "src")
    assert repository.root == checkout.root
    changed = repository.changed_files(repository.commit("HEAD~1"), repository.commit("HEAD"))
    assert sorted(changed) == [
        "README.md",
        "new.py",
        "odd ‘name’\nof two lines.md",
        "untracked.txt",
    ]
    checkout.write({"new.py": "more"})
    assert "new.py" in repository.changed_files(repository.commit("HEAD"))
    assert repository.is_dirty()


def test_a_shallow_clone_says_how_to_get_the_history(checkout: Checkout, tmp_path: Path) -> None:
    checkout.git("reset", "--quiet", "--hard")
    checkout.branch()
    for number in range(3):
        checkout.commit(f"number {number}", {"new.py": str(number)})
    origin = f"file://{checkout.root}"
    checkout.git("clone", "--quiet", "--depth=1", "--no-single-branch", origin, str(tmp_path / "c"))
    clone = find_repository(tmp_path / "c")
    with pytest.raises(RepositoryError, match="`fetch-depth: 0` of actions/checkout"):
        clone.merge_base(clone.commit("origin/main"), clone.commit("HEAD"))
    with pytest.raises(UnknownRevisionError, match="fetch-depth: 0"):
        clone.commit("HEAD~1")


def test_commits_without_a_common_history_are_named(checkout: Checkout) -> None:
    checkout.git("reset", "--quiet", "--hard")
    checkout.git("checkout", "--quiet", "--orphan", "other")
    checkout.commit("Another root", {"new.py": ""})
    repository = find_repository(checkout.root)
    with pytest.raises(RepositoryError, match="no common history"):
        repository.merge_base(repository.commit("main"), repository.commit("HEAD"))
