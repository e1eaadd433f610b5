"""Activates environments under test, and finds their Python and their torch.

An environment is described by a shell command that activates it, so that `import torch` works. Only
this module and `builds` run shell text of the user. bash runs the command once. Then the Python
that it leads to reports the interpreter, the changed variables and the working directory. From then
on, processes are started without a shell. torch is located but not imported.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torchmark.engine.files import private_directory
from torchmark.engine.machine import need_tool, run_tool
from torchmark.errors import MissingTorchError, ZygoteError

_SECONDS = 120
"""How long an activation command may take, or an interpreter to start. conda takes 10 s on a slow
disk."""

_COSMETIC = frozenset(
    {"PATH", "PS1", "PWD", "OLDPWD", "SHLVL", "_", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT",
     "TORCHMARK_ANSWER", "TORCHMARK_QUESTION", "TORCHMARK_PYTHON",
     "TORCHMARK_SIDE", "TORCHMARK_ENV", "TORCHMARK_COMMIT", "TORCHMARK_TREE"}
)  # fmt: skip
"""Variables that nearly every activation command changes and that no measured code reads. They are
left out, because every byte of the environment changes where objects lie in memory."""

_SAY_WHAT_IS_LOADED = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD")

_ASK = 'import os; exec(open(os.environ["TORCHMARK_QUESTION"]).read())'
_WITHOUT_THIS_DIRECTORY = "import sys; sys.path[:] = filter(None, sys.path); "

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
answer = {"executable": sys.executable, "path": path, "torch": torch, "error": error,
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
ask={ask}
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
"""The script finds the Python that the command led to: an alias, a function, or another file than
before. If the command changed none of these, it uses the Python that runs torchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python that has torch: one environment under test."""

    executable: str
    """The path of the program."""

    sys_path: tuple[str, ...]
    """Where it looks for modules. PYTHONPATH is left out unless torch itself is found there:
    files in such a directory would change the address of every object that an import creates."""

    torch_file: str
    """The file that `import torch` would load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivatedEnvironment:
    """The environment that an activation command leads to."""

    name: str
    """"A", "B", or the name that the user gave."""

    command: str
    """The shell command; empty for the environment that torchmark itself runs in."""

    interpreter: Interpreter
    """The Python that is found after the command, with its torch."""

    variables: tuple[tuple[str, str], ...]
    """The variables that the command set or changed."""

    directory: str
    """The working directory after the command."""

    def is_same_installation(self, other: ActivatedEnvironment) -> bool:
        """Whether both start the same interpreter with the same torch, in the same way."""
        return self.loads_the_same_files(other) and self.variables == other.variables

    def loads_the_same_files(self, other: ActivatedEnvironment) -> bool:
        """Whether imports find the same files in both, whatever their other variables are."""
        one, another = dict(self.variables), dict(other.variables)
        return (
            os.path.realpath(self.interpreter.torch_file)
            == os.path.realpath(other.interpreter.torch_file)
            and self.interpreter.executable == other.interpreter.executable
            and self.interpreter.sys_path == other.interpreter.sys_path
            and all(one.get(name, "") == another.get(name, "") for name in _SAY_WHAT_IS_LOADED)
        )


def ask_interpreter(executable: str) -> Interpreter:
    """Ask the interpreter where its torch is, once; the working directory is not searched."""
    return _ask_once(executable, os.environ.get("PYTHONPATH", ""))


@lru_cache
def _ask_once(executable: str, _python_path: str) -> Interpreter:
    try:
        done, said = _ask([executable, "-c", _WITHOUT_THIS_DIRECTORY + _ASK])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ZygoteError(f"{executable} does not run as a Python interpreter: {error}") from error
    if said is None:
        raise ZygoteError(f"{executable} does not run as a Python interpreter:\n{done.stderr}")
    if said["torch"] is None:
        raise MissingTorchError(
            f"{executable} cannot import torch; install it with "
            f"'{executable} -m pip install torch', or name an interpreter that has it"
        )
    return _interpreter(executable, said)


def activate_environment(name: str, command: str) -> ActivatedEnvironment:
    """Run the activation command and ask the Python it leads to; errors include its output."""
    bash = need_tool(
        "bash", "torchmark activates environments with bash, which is not on PATH; install 'bash'"
    )
    try:
        done, said = _ask([bash, "-c", _SCRIPT.format(command=command, ask=shlex.quote(_ASK))])
    except subprocess.TimeoutExpired as error:
        raise ZygoteError(
            f"the activation command of {name} did not end within {_SECONDS} s:\n  {command}"
        ) from error
    if said is None:
        raise ZygoteError(
            f"the activation command of {name} failed with status {done.returncode}:\n"
            f"  {command}\n{done.stdout}{done.stderr}".rstrip()
        )
    if said["torch"] is None:
        raise MissingTorchError(
            f"{said['executable']}, which the activation command of {name} selects, cannot import "
            f"torch; install torch there, or activate another environment:\n  {command}\n"
            f"{said['error']}"
        )
    return ActivatedEnvironment(
        name=name,
        command=command,
        interpreter=_interpreter(said["executable"], said),
        variables=tuple(sorted(_changed_variables(said).items())),
        directory=said["directory"],
    )


def _ask(
    arguments: list[str],
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any] | None]:
    """Run a command that ends in Python; return that Python's answer, or None if it failed."""
    with private_directory() as folder:
        question, answer = folder / "question.py", folder / "answer.json"
        question.write_text(_QUESTION)
        variables = {
            "TORCHMARK_QUESTION": str(question),
            "TORCHMARK_ANSWER": str(answer),
            "TORCHMARK_PYTHON": sys.executable,
        }
        done = run_tool(arguments, _SECONDS, variables=variables, takes_ctrl_c=True)
        if done.returncode != 0 or not answer.exists():
            return done, None
        return done, json.loads(answer.read_text())


def _interpreter(executable: str, said: dict[str, Any]) -> Interpreter:
    return Interpreter(
        executable=executable, sys_path=tuple(said["path"]), torch_file=said["torch"]
    )


def _changed_variables(said: dict[str, Any]) -> dict[str, str]:
    given = said["variables"]
    changed = {
        key: value
        for key, value in given.items()
        if os.environ.get(key) != value and key not in _COSMETIC and not key.startswith("CONDA_")
    }
    if "PYTHONPATH" in given:
        # Kept even if the command did not change it, because it may contain a sitecustomize. Paths
        # are made absolute, because the measured code runs in another directory.
        changed["PYTHONPATH"] = os.pathsep.join(
            os.path.normpath(os.path.join(said["directory"], entry))
            if entry and not os.path.isabs(entry)
            else entry
            for entry in given["PYTHONPATH"].split(os.pathsep)
        )
    return changed
