"""An environment under test, given by a shell command: whatever makes `import torch` work.

This is the one place that runs shell text of the user's. The command is run once by bash; what it
leaves behind (the interpreter, the variables that it changed, the working directory) is asked of
the Python that is found after it, and from then on processes are started without a shell.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from torchmark.engine.files import discard, make_private_directory
from torchmark.engine.interpreters import Interpreter
from torchmark.errors import MissingToolError, MissingTorchError, ZygoteError

_SECONDS = 120
"""How long a source command may take; conda on a slow disk takes ten."""

_COSMETIC = frozenset(
    {"PATH", "PS1", "PWD", "OLDPWD", "SHLVL", "_", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT",
     "TORCHMARK_ANSWER", "TORCHMARK_QUESTION", "TORCHMARK_PYTHON"}
)  # fmt: skip
"""Changed by nearly every source command, and read by nothing that is measured. Every byte of the
environment moves where objects lie, so what is not needed stays away."""

_ALWAYS_KEPT = frozenset({"PYTHONPATH"})
"""Kept even where the command did not change it: a sitecustomize may lie there."""

_SAY_WHAT_IS_LOADED = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD")

_QUESTION = """
import importlib.util, json, os, sys
here = os.getcwd()
given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
path = [entry or here for entry in sys.path]
def origin(entries):
    sys.path[:] = entries
    try:
        found = importlib.util.find_spec("torch")
    except Exception:
        found = None
    return found.origin if found else None
torch = origin(path)
error = None
if torch is None:
    try:
        import torch as found
        error = "ImportError: " + repr(found) + " has no file: a folder of that name is in the way"
    except BaseException as raised:
        error = type(raised).__name__ + ": " + str(raised)
for left_out in ([here], given):
    fewer = [entry for entry in path if entry not in left_out]
    if origin(fewer) == torch:
        path = fewer
try:
    with open(os.path.join(os.path.dirname(torch), "version.py")) as file:
        names = {}
        exec(file.read(), names)
    version = str(names.get("__version__"))
except Exception:
    version = None
answer = {"executable": sys.executable, "path": path, "torch": torch, "version": version,
          "error": error,
          "variables": dict(os.environ), "directory": here}
with open(os.environ["TORCHMARK_ANSWER"], "w") as file:
    json.dump(answer, file)
"""

_SCRIPT = """
shopt -s expand_aliases
TORCHMARK_WAS_python=$(type -P python)
TORCHMARK_WAS_python3=$(type -P python3)
{command}
TORCHMARK_STATUS=$?
if [ $TORCHMARK_STATUS -ne 0 ]; then exit $TORCHMARK_STATUS; fi
ask='import os; exec(open(os.environ["TORCHMARK_QUESTION"]).read())'
case "$(type -t python):$(type -t python3)" in
  alias:*|function:*) TORCHMARK_CHOICE=python ;;
  *:alias|*:function) TORCHMARK_CHOICE=python3 ;;
  *) TORCHMARK_CHOICE=ours
     for name in python3 python; do
       found=$(type -P $name)
       was=TORCHMARK_WAS_$name
       if [ -n "$found" ] && [ "$found" != "${{!was}}" ]; then TORCHMARK_CHOICE=$name; fi
     done ;;
esac
case $TORCHMARK_CHOICE in
  python) python -c "$ask" ;;
  python3) python3 -c "$ask" ;;
  ours) "$TORCHMARK_PYTHON" -c "$ask" ;;
esac
"""
"""The Python that the command led to: an alias, a function, or another file than before; where
the command changed none of these it is the one that runs torchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivatedEnvironment:
    """What a source command leads to."""

    name: str
    """"A", "B", or the name that the user gave."""

    command: str
    """The shell text; empty for the environment that torchmark itself was called in."""

    interpreter: Interpreter
    """The Python that is found after the command, and its torch."""

    variables: tuple[tuple[str, str], ...]
    """The variables that the command set or changed."""

    directory: str
    """The working directory that the command left."""

    def is_same_installation(self, other: ActivatedEnvironment) -> bool:
        """Whether the two would start the same interpreter with the same torch, in the same way."""
        return self.loads_the_same_files(other) and self.variables == other.variables

    def loads_the_same_files(self, other: ActivatedEnvironment) -> bool:
        """Whether an import finds the same in both, whatever else their variables say."""
        one, another = dict(self.variables), dict(other.variables)
        return (
            os.path.realpath(self.interpreter.torch_file)
            == os.path.realpath(other.interpreter.torch_file)
            and self.interpreter.executable == other.interpreter.executable
            and self.interpreter.sys_path == other.interpreter.sys_path
            and all(one.get(name, "") == another.get(name, "") for name in _SAY_WHAT_IS_LOADED)
        )


def activate_environment(name: str, command: str) -> ActivatedEnvironment:
    """Run the source command and ask what it leads to; an error carries its own text."""
    bash = shutil.which("bash")
    if bash is None:
        raise MissingToolError(
            "source commands are run by bash, which is not on PATH; install the package 'bash'"
        )
    folder = make_private_directory()
    try:
        question, answer = folder / "question.py", folder / "answer.json"
        question.write_text(_QUESTION)
        variables = {
            **os.environ, "TORCHMARK_QUESTION": str(question), "TORCHMARK_ANSWER": str(answer),
            "TORCHMARK_PYTHON": sys.executable,
        }  # fmt: skip
        done = _run([bash, "-c", _SCRIPT.format(command=command)], variables, name)
        if done.returncode != 0 or not answer.exists():
            raise ZygoteError(
                f"the source command of {name} failed with status {done.returncode}:\n"
                f"  {command}\n{done.stdout}{done.stderr}".rstrip()
            )
        said = json.loads(answer.read_text())
    finally:
        discard(folder)
    return _environment(name, command, said)


def _run(
    arguments: list[str], variables: dict[str, str], name: str
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 - the user's own source command
            arguments,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            env=variables,
        )
    except subprocess.TimeoutExpired as error:
        raise ZygoteError(
            f"the source command of {name} did not end within {_SECONDS} s:\n  {arguments[-1]}"
        ) from error


def _environment(name: str, command: str, said: dict[str, Any]) -> ActivatedEnvironment:
    if said["torch"] is None:
        raise MissingTorchError(
            f"{said['executable']}, which the source command of {name} leads to, cannot import "
            f"torch:\n  {command}\n{said['error']}"
        )
    changed = {
        key: value
        for key, value in said["variables"].items()
        if (os.environ.get(key) != value or key in _ALWAYS_KEPT)
        and key not in _COSMETIC
        and not key.startswith("CONDA_")
    }
    if "PYTHONPATH" in changed:
        changed["PYTHONPATH"] = _as_seen_from(said["directory"], changed["PYTHONPATH"])
    return ActivatedEnvironment(
        name=name,
        command=command,
        interpreter=Interpreter(
            executable=said["executable"],
            sys_path=tuple(said["path"]),
            torch_file=said["torch"],
            torch_version=said["version"],
        ),
        variables=tuple(sorted(changed.items())),
        directory=said["directory"],
    )


def _as_seen_from(directory: str, python_path: str) -> str:
    """With whole paths: what is measured runs in another directory."""
    entries = python_path.split(os.pathsep)
    return os.pathsep.join(
        os.path.normpath(os.path.join(directory, entry))
        if entry and not os.path.isabs(entry)
        else entry
        for entry in entries
    )
