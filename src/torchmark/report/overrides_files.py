"""The names of the files in the folder of a report on the cost of overrides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchmark.model.case import Case

MARKDOWN, PAGE, ZIP = "report.md", "report.html", "report.zip"


def picture_name(which: str, case: Case, ending: str) -> str:
    """
    >>> from torchmark.model.case import Case
    >>> case = Case(label=("overrides", "torch.add", "SubTensor"), stmt="torch.add(x, y)")
    >>> picture_name("base", case, "svg")
    'base-torch.add-SubTensor.svg'
    """
    words = case.label[1:] if len(case.label) > 1 else (case.name,)
    slug = re.sub(r"[^\w.]+", "-", "-".join(words)).strip("-.")
    return f"{which}-{slug}.{ending}"
