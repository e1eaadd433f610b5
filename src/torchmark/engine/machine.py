"""Describes this machine: processor and peak speeds, free memory, installed tools, git, torch."""

from __future__ import annotations

import datetime
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from torchmark.arguments import check_count
from torchmark.errors import MissingToolError, MissingTorchError, TorchmarkError
from torchmark.model.run import MachineSpeeds

if TYPE_CHECKING:
    from torchmark.engine.zygote.zygote import Zygote

_TOOL_SECONDS = 20
"""How long a tool may take to print its version, or git to read a working directory. Git needs a
few seconds for a large directory on a slow disk."""

_COMMIT = re.compile(r"[0-9a-fA-F]{4,64}")
"""Four digits are the fewest that git takes; SHA-256 has 64."""

_KEPT_FREE = 0.2
"""Share of the available memory that a case may not use: it is left for other processes."""

SPEED_MODULES = ("torchmark_probe.replay.work",)
"""Modules that a zygote imports before it can measure its speeds."""


def import_torch() -> Any:
    """Import torch into this process; an error names the interpreter that lacks it."""
    try:
        import torch  # noqa: PLC0415 - importing torchmark must not import torch
    except ImportError as error:
        raise MissingTorchError(
            f"{sys.executable} cannot import torch ({error}); install it with "
            "'python -m pip install torch', or run torchmark with the interpreter that has it"
        ) from error
    return torch


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Make torch use `n` threads inside the block, and restore the previous number afterwards.

    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with set_torch_threads(1):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    torch = import_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(check_count("the number of threads", n))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def find_tool(name: str) -> str | None:
    """Return the path of a tool from this interpreter's scripts directory or from PATH."""
    scripts = Path(sysconfig.get_path("scripts")) / name
    return str(scripts) if os.access(scripts, os.X_OK) else shutil.which(name)


def need_tool(name: str, what_to_do: str) -> str:
    """Return the path of a tool, or raise an error with this text."""
    found = find_tool(name)
    if found is None:
        raise MissingToolError(what_to_do)
    return found


def run_tool(
    command: Sequence[str],
    seconds: float | None = _TOOL_SECONDS,
    *,
    variables: Mapping[str, str | None] | None = None,
    takes_ctrl_c: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end and return what it printed.

    `variables` are added to the environment of this process; None removes one. The tool may take
    so many `seconds`; None is no limit.

    Raises OSError if the tool cannot be started, TimeoutExpired if it takes too long. Ctrl-C is
    delivered to this process only, which then ends the tool. A tool that starts child
    processes should get Ctrl-C too (`takes_ctrl_c`).
    """
    return subprocess.run(  # noqa: S603 - a list of arguments, no shell
        command,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
        env=environment_with(variables or {}),
        start_new_session=not takes_ctrl_c,
    )


def environment_with(variables: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment of this process with these variables; None removes one."""
    changed = {**os.environ, **variables}
    return {name: value for name, value in changed.items() if value is not None}


def first_line_of(*command: str) -> str:
    """Return the first line that a tool prints, or why it could not be run."""
    try:
        done = run_tool(command)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def why_py_spy_cannot_attach(py_spy: str) -> str | None:
    """Return None if py-spy can read another process of this user; tried on this process."""
    try:
        done = run_tool([py_spy, "dump", "--nonblocking", "--pid", str(os.getpid())])
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr or done.stdout).strip().partition("\n")[0]


def describe_checkout(directory: Path) -> dict[str, Any] | None:
    """Return the checked-out commit, its date, and whether files differ; None outside of git."""
    commit = _git(directory, "rev-parse", "HEAD")
    if commit is None:
        return None
    status = _git(directory, "status", "--porcelain", "--untracked-files=no")
    return {
        "commit": commit,
        "committed": _commit_date(_git(directory, "show", "-s", "--format=%ct", "HEAD")),
        "branch": _git(directory, "rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": None if status is None else bool(status),
    }


def count_commits(
    directory: Path, ranges: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], int | None]:
    """Return the number of commits in each range; None if its start is not an ancestor of its end.

    Ranges with a commit that the repository does not have, such as after a rebase, are left out.
    So are those with a text that is no commit: it comes from a store, and could be an option.
    """
    found: dict[tuple[str, str], int | None] = {}
    for before, after in ranges:
        if not (_COMMIT.fullmatch(before) and _COMMIT.fullmatch(after)):
            continue
        # left: commits that only `before` has; right: those that only `after` has
        sides = _git(directory, "rev-list", "--count", "--left-right", f"{before}...{after}", "--")
        if sides is not None:
            left, right = map(int, sides.split())
            found[before, after] = None if left else right
    return found


def _commit_date(seconds: str | None) -> str | None:
    """The date in UTC as ISO 8601, from what git prints."""
    if seconds is None or not seconds.isdigit():
        return None
    date = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
    return date.isoformat(timespec="seconds")


def _git(directory: Path, *arguments: str) -> str | None:
    """Return what git prints; None if it is missing, fails or takes too long."""
    git = find_tool("git")
    if git is None:
        return None
    # No locks: reading a repository must not block anyone who works in it.
    try:
        done = run_tool([git, "--no-optional-locks", "-C", str(directory), *arguments])
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def free_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Return the bytes that a case may use; None if the kernel does not report free memory."""
    try:
        text = meminfo.read_text()
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return None if found is None else int(int(found[1]) * 1024 * (1 - _KEPT_FREE))


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's model name, or its architecture if it has no name."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model", "cpu model"} and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()


def describe_machine() -> dict[str, Any]:
    """Describe the processor, the cores this process may use, and the current load."""
    return {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
    }


def measure_speeds(
    zygote: Zygote, dtypes: Iterable[str], cores: Collection[int] = ()
) -> MachineSpeeds | None:
    """Measure the machine's peak speeds for these element types, with the zygote's threads.

    None if they cannot be measured: a report can do without them.
    """
    function = "torchmark_probe.replay.work.machine_speeds"
    try:
        speeds = zygote.call(function, sorted(set(dtypes)), cores=cores)
    except TorchmarkError:
        return None
    return msgspec.convert(speeds, MachineSpeeds, str_keys=True)
