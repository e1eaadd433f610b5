"""The setup of a case with the path of its saved model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.model.case import MODEL_PATH

if TYPE_CHECKING:
    from torchmark.model.case import Case


def setup_with_model(case: Case, path: str) -> str:
    """The setup, with the path where MODEL_PATH stands: inside of a literal in double quotes.

    A C++ build is kept by its text, so a path that is the same in every run (named by the model's
    id) saves compiling the case again.
    """
    return case.setup.replace(MODEL_PATH, path.replace("\\", "\\\\").replace('"', '\\"'))
