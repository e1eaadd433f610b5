"""The saved models of cases: how their source is run, and how a setup gets their path.

The source of a ScriptedModel is run from a file of its own, because torch reads the text of what it
scripts from there, and under MODULE_NAME, because the names of its classes are saved with it:

    names = runpy.run_path(file, run_name=MODULE_NAME)
    names["jit_model"].save(path)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.model.case import MODEL_PATH

if TYPE_CHECKING:
    from torchmark.model.case import Case

MODULE_NAME = "torchmark_scripted"
"""An identifier: runpy's own `<run_path>` can be saved, and cannot be loaded again."""


def setup_with_model(case: Case, path: str) -> str:
    """The setup, with the path where MODEL_PATH stands: inside of a literal in double quotes.

    A C++ build is kept by its text, so a path that is the same in every run (named by the model's
    id) saves compiling the case again.
    """
    return case.setup.replace(MODEL_PATH, path.replace("\\", "\\\\").replace('"', '\\"'))
