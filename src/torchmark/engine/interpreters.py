"""What an interpreter says of itself: where it looks for modules, and which torch it would find."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from functools import lru_cache

from torchmark.errors import MissingTorchError, ZygoteError

_SECONDS = 60
"""How long an interpreter may take to start; some live on slow network disks."""

_QUESTION = """
import importlib.util, json, os, sys
given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
path = [entry for entry in sys.path if entry]
own = [entry for entry in path if entry not in given]
sys.path[:] = path
found = importlib.util.find_spec("torch")
origin = found.origin if found else None
sys.path[:] = own
found = importlib.util.find_spec("torch")
if found and found.origin == origin:
    path = own
try:
    with open(os.path.join(os.path.dirname(origin), "version.py")) as file:
        names = {}
        exec(file.read(), names)
    version = names.get("__version__")
except Exception:
    version = None
print(json.dumps({"path": path, "torch": origin, "version": version and str(version)}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python with a torch: one environment under test."""

    executable: str
    """The program, as a path."""

    sys_path: tuple[str, ...]
    """Where it looks for modules. PYTHONPATH is left out unless torch itself is found there:
    what lies in such a directory would move every object that an import makes."""

    torch_file: str
    """The file that `import torch` would load."""

    torch_version: str | None
    """As torch's own version file has it, if that could be read."""


def ask_interpreter(executable: str) -> Interpreter:
    """Ask the interpreter once in the life of this process; torch is found, not imported."""
    return _asked(executable, os.environ.get("PYTHONPATH", ""))


@lru_cache
def _asked(executable: str, _python_path: str) -> Interpreter:
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, no shell
            [executable, "-c", _QUESTION],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        said = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise ZygoteError(f"{executable} does not run as a Python interpreter: {error}") from error
    if said is None:
        raise ZygoteError(f"{executable} does not run as a Python interpreter:\n{done.stderr}")
    if said["torch"] is None:
        raise MissingTorchError(
            f"{executable} cannot import torch; install it with "
            f"'{executable} -m pip install torch', or name an interpreter that has it"
        )
    return Interpreter(
        executable=executable,
        sys_path=tuple(said["path"]),
        torch_file=said["torch"],
        torch_version=said["version"],
    )
