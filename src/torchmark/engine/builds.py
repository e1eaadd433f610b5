"""Build commits: each in a git worktree of its own, once, outside of the user's working tree.

A build is the checked-out commit, and whatever the user's setup command makes of it. It is kept in
the cache by repository, commit and setup command, so that a second comparison with the same base
does not build it again. The user's working tree, index, branches and stash are not touched: a
worktree has its own index and a detached HEAD, and hooks are off.

In `builds/` of the cache directory:

    KEY.lock      held while the build is made, so that two processes do not make it at once
    KEY.log       what the setup command printed
    KEY.json      written last: names the folder of the finished build; its date is the last use
    KEY-xxxxxxxx/ tree/ (the worktree) and env/ (for a virtual environment)

Every attempt has a folder of its own. What an interrupted one left is never taken for a build, even
if its setup command is still running. It is removed before the next build of the repository.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from torchmark.engine.files import hold_lock, is_locked, take_lock
from torchmark.engine.machine import environment_with, need_tool
from torchmark.engine.repository import OF_HOOKS, Commit, Repository
from torchmark.errors import BuildFailedError, RepositoryError
from torchmark.files import PRIVATE, cache_directory, make_folder, write_whole
from torchmark.model.case import digest
from torchmark.model.run import Stage

KEPT = 8
"""Builds of a repository that are kept: the newest pull requests with their base. A build of a
Python package with its own torch takes up to 5 GB."""

_FRESH_SECONDS = 86_400.0
"""A build that was used in the last day is kept in any case: a comparison may be using it."""

_TAIL_LINES = 20
"""Lines of the log that an error shows: enough for the message of a compiler or of pip."""

_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")
"""`git worktree add` would run the user's post-checkout hook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A commit that is checked out and built."""

    commit: Commit
    side: str
    """What it is used as: "base" or "head"."""

    folder: Path
    log: Path
    """What the setup command printed."""

    @property
    def tree(self) -> Path:
        """The checked-out commit."""
        return self.folder / "tree"

    @property
    def variables(self) -> dict[str, str]:
        """The variables that the user's commands can use."""
        return {
            "TORCHMARK_SIDE": self.side,
            "TORCHMARK_ENV": str(self.folder / "env"),
            "TORCHMARK_COMMIT": self.commit.id,
            "TORCHMARK_TREE": str(self.tree),
        }

    def activation(self, command: str | None = None) -> str:
        """Return the shell command that activates the environment in which the build is measured.

        This is `command`, which can use the variables. By default, it is the virtual environment
        that the setup command made; without one, the worktree and its `src` are on PYTHONPATH.
        """
        if command is not None:
            given = (f"{name}={shlex.quote(text)}" for name, text in self.variables.items())
            return f"{' '.join(given)}; {command}"
        script = self.folder / "env" / "bin" / "activate"
        if script.exists():
            return f"source {shlex.quote(str(script))}"
        path = shlex.quote(os.pathsep.join(map(str, source_folders(self.tree))))
        return f"export PYTHONPATH={path}${{PYTHONPATH:+:$PYTHONPATH}}"


class _Marker(msgspec.Struct, frozen=True, kw_only=True):
    """The file that says that a build is finished."""

    folder: str
    repository: str
    commit: str
    setup: str


def source_folders(tree: Path) -> list[Path]:
    """Return the folders of a checkout from which its packages are imported."""
    return [each for each in (tree / "src", tree) if each.is_dir()]


def build_commit(
    repository: Repository,
    commit: Commit,
    setup: str,
    *,
    side: str = "head",
    time_limit: float | None = None,
    progress: Callable[[Stage], None] | None = None,
) -> Build:
    """Check the commit out and run the setup command in it, unless that was done before.

    `setup` is a shell command. bash runs it in the worktree, and it ends at the first command that
    fails (`-e`). It gets no input, so a build that asks for something fails. It may take
    `time_limit` seconds; None is no limit. After an error or Ctrl-C, nothing is left except the
    log.
    """
    tell = progress or (lambda _stage: None)
    builds = _builds_folder()
    key = _key_of(repository, commit, setup)
    lock = builds / f"{key}.lock"
    if is_locked(lock):
        tell(Stage(text=f"waiting for another process, which builds {commit}"))
    with hold_lock(lock):
        _tidy(repository, builds, key)
        build = _find(builds, key, commit, side)
        if build is None:
            folder = builds / f"{key}-{uuid.uuid4().hex[:8]}"
            build = Build(commit=commit, side=side, folder=folder, log=builds / f"{key}.log")
            text = f"building {side} {commit}; log: {build.log}"
            tell(Stage(text=text))
            _make(repository, build, setup, time_limit)
            tell(Stage(text=text, is_over=True))
        marker = _Marker(
            folder=build.folder.name,
            repository=str(repository.common),
            commit=commit.id,
            setup=setup,
        )
        write_whole(builds / f"{key}.json", msgspec.json.encode(marker), mode=PRIVATE)
    return build


def find_build(
    repository: Repository, commit: Commit, setup: str, *, side: str = "head"
) -> Build | None:
    """Return the build of a commit if it is already made."""
    builds = cache_directory() / "builds"
    return _find(builds.resolve(), _key_of(repository, commit, setup), commit, side)


def _builds_folder() -> Path:
    folder = cache_directory() / "builds"
    try:
        return make_folder(folder).resolve()
    except OSError as error:
        raise BuildFailedError(
            f"commits are built in {folder}, which cannot be created: {error.strerror}; set "
            "XDG_CACHE_HOME to a folder that you can write to"
        ) from error


def _key_of(repository: Repository, commit: Commit, setup: str) -> str:
    return digest([str(repository.common), commit.id, setup])


def _find(builds: Path, key: str, commit: Commit, side: str) -> Build | None:
    marker = _read_marker(builds / f"{key}.json")
    if marker is None or not (builds / marker.folder / "tree").is_dir():
        return None
    folder = builds / marker.folder
    return Build(commit=commit, side=side, folder=folder, log=builds / f"{key}.log")


def _read_marker(file: Path) -> _Marker | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Marker)
    except (OSError, msgspec.DecodeError):
        return None


def _make(repository: Repository, build: Build, setup: str, time_limit: float | None) -> None:
    """Check out and build; remove everything except the log if that does not succeed."""
    make_folder(build.folder)
    try:
        # Without a limit: the checkout of a large repository takes minutes on a slow disk.
        add = ("worktree", "add", "--quiet", "--detach", str(build.tree), build.commit.id)
        repository.git(*_NO_HOOKS, *add, seconds=None)
        _run_setup(build, setup, time_limit)
    except BaseException:
        _remove(repository, build.folder)
        raise


def _run_setup(build: Build, setup: str, time_limit: float | None) -> None:
    bash = need_tool("bash", "setup commands are run with bash, which is not on PATH; install it")
    variables: Mapping[str, str | None] = {**OF_HOOKS, **build.variables}
    with build.log.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - the user's own command, as documented
            [bash, "-eo", "pipefail", "-c", setup],
            cwd=build.tree,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment_with(variables),
            start_new_session=True,  # so that its children can be ended with it
        )
        try:
            status = process.wait(time_limit)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise _failure(build, setup, f"did not end within {error.timeout:g} s") from error
        except BaseException:
            _end(process)
            raise
    if status != 0:
        raise _failure(build, setup, f"failed with status {status}")


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _failure(build: Build, setup: str, how: str) -> BuildFailedError:
    lines = build.log.read_text(errors="replace").rstrip().splitlines()
    said = "\n".join(lines[-_TAIL_LINES:]) or "(it printed nothing)"
    return BuildFailedError(
        f"the setup command of {build.side} {build.commit} {how}:\n  {setup}\n{said}\n"
        f"The whole log is in {build.log}"
    )


def _tidy(repository: Repository, builds: Path, own: str) -> None:
    """Remove what interrupted builds left, and old builds. Holds the lock of the key `own`."""
    for folder in _worktrees_in(repository, builds):
        key = folder.name.rpartition("-")[0]
        marker = _read_marker(builds / f"{key}.json")
        if marker is None or marker.folder != folder.name:
            _remove_if_free(repository, builds, key, folder, own)
    now = time.time()
    for file in _markers_of(repository, builds)[KEPT:]:
        marker = _read_marker(file)
        is_old = now - file.stat().st_mtime > _FRESH_SECONDS
        if marker is not None and is_old and file.stem != own:
            file.unlink(missing_ok=True)
            _remove_if_free(repository, builds, file.stem, builds / marker.folder, own)


def _worktrees_in(repository: Repository, builds: Path) -> Iterator[Path]:
    """The folders of builds that the repository has a worktree in, missing folders too."""
    for line in repository.git("worktree", "list", "--porcelain").splitlines():
        name, _, path = line.partition(" ")
        if name == "worktree" and Path(path).parent.parent == builds:
            yield Path(path).parent


def _markers_of(repository: Repository, builds: Path) -> list[Path]:
    """The markers of the repository, the last used first."""
    found = []
    for file in builds.glob("*.json"):
        marker = _read_marker(file)
        if marker is not None and marker.repository == str(repository.common):
            found.append((file.stat().st_mtime, file))
    return [file for _, file in sorted(found, reverse=True)]


def _remove_if_free(repository: Repository, builds: Path, key: str, folder: Path, own: str) -> None:
    """Remove the folder unless another process is building it."""
    descriptor = None if key == own else take_lock(builds / f"{key}.lock")
    if key == own or descriptor is not None:
        _remove(repository, folder)
    if descriptor is not None:
        os.close(descriptor)


def _remove(repository: Repository, folder: Path) -> None:
    """Remove the folder, and the worktree in it from the list of the repository.

    `git worktree prune` would also remove the user's own worktrees that are on a disk which is not
    mounted.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(RepositoryError):  # it was not checked out yet
        # Twice: a worktree whose checkout was interrupted is locked.
        repository.git("worktree", "remove", "--force", "--force", str(folder / "tree"))
