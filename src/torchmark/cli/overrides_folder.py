"""The folder that `torchmark overrides report` fills: written as it comes, zipped in the end."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchmark.errors import InvalidArgumentError
from torchmark.flame.svg import png_of
from torchmark.report import overrides_markdown, overrides_page
from torchmark.report.overrides_files import MARKDOWN, PAGE, ZIP, picture_name

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.analyse.ab import Understood
    from torchmark.model.case_flames import CaseFlames


@dataclass(slots=True, kw_only=True)
class ReportFolder:
    """What is in it is whole at any time, with the flame graphs that there are."""

    path: Path
    comparison: Understood
    flames: list[CaseFlames] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _written: list[str] = field(default_factory=list)

    def write(self) -> None:
        """The report on what there is so far."""
        pages = {MARKDOWN: overrides_markdown, PAGE: overrides_page}
        for name, page in pages.items():
            self._put(name, page.render(self.comparison, self.flames, self.problems).encode())

    def add(self, flames: CaseFlames) -> None:
        """The pictures of one case, as they are and as PNG."""
        for which, svg in flames.named().items():
            self._put(picture_name(which, flames.case, "svg"), svg.encode())
        self.flames.append(flames)
        for which, svg in flames.named().items():
            self._put(picture_name(which, flames.case, "png"), png_of(svg))

    def zip(self) -> None:
        """All that was written, in one file."""
        with zipfile.ZipFile(self.path / ZIP, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in self._written:
                archive.write(self.path / name, f"{self.path.name}/{name}")

    def _put(self, name: str, content: bytes) -> None:
        (self.path / name).write_bytes(content)
        if name not in self._written:
            self._written.append(name)


def empty_folder(path: Path) -> Path:
    """Made if it is not there: what somebody has in it must not be mixed with a report."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_empty = not any(path.iterdir())
    except OSError as error:
        raise InvalidArgumentError(f"the report cannot go into {path}: {error.strerror}") from error
    if not is_empty:
        raise InvalidArgumentError(
            f"{path} has files in it; give another folder with -o, or empty it"
        )
    return path.resolve()
