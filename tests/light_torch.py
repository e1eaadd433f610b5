"""A torch that is nothing but a name: environments with it start in no time.

Where a promise is about the command and not about torch, real zygotes of real environments take
turns with it, as they would with the real one.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "9.9"

_PACKAGE = f"""
class _Anything:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments, **keywords):
        return self

    __getitem__ = __add__ = __mul__ = __call__


class _Config:
    def show(self):
        return "made up"


class _Absent:
    def is_available(self):
        return False


__version__ = "{VERSION}"
__config__ = _Config()
accelerator = cuda = _Absent()
ones = tensor = mm = nn = default_generator = _Anything()


class backends:
    openmp = _Absent()


class version:
    git_version = "0" * 40


def set_num_threads(number):
    pass


def get_num_threads():
    return 1


def compiled_with_cxx11_abi():
    return True
"""


def put_into(folder: Path, more: str = "") -> str:
    """Write the package; the source command that leads to it. `more` is run when it is imported."""
    package = folder / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_PACKAGE + more)
    (package / "version.py").write_text(f"__version__ = '{VERSION}'\n")
    return f"export PYTHONPATH={shlex.quote(str(folder))}"
