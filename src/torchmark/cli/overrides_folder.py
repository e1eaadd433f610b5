"""The folder that `torchmark overrides report` fills: the run as files for a pull request."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING

from torchmark.errors import InvalidArgumentError
from torchmark.flame.svg import png_of
from torchmark.report import render, view_of
from torchmark.report.formats.markdown import escaped

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.model.run import Run
    from torchmark.report.view import View

MARKDOWN, PAGE, ZIP = "report.md", "report.html", "report.zip"

_OURS = re.compile(r"report\.(md|html|zip)|(base|branch|difference)-.*\.(svg|png)")


def find_folder(path: Path, *, may_hold_report: bool = False) -> Path:
    """Made if it is not there: what somebody has in it must not be mixed with a report.

    A run that is resumed may find there what it had written when it was cut short.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        names = [entry.name for entry in path.iterdir()]
    except OSError as error:
        raise InvalidArgumentError(f"the report cannot go into {path}: {error.strerror}") from error
    if any(not (may_hold_report and _OURS.fullmatch(name)) for name in names):
        raise InvalidArgumentError(
            f"{path} has files in it; give another folder with -o, or empty it"
        )
    return path.resolve()


def write_folder(path: Path, run: Run) -> None:
    """The report, an SVG and a PNG of each flame graph, and an archive of it all."""
    view = view_of(run)
    files = {MARKDOWN: _markdown(run, view).encode(), PAGE: render(run, "html").encode()}
    for section in view.sections:
        for picture in section.pictures:
            files[f"{picture.name}.svg"] = picture.svg.encode()
            files[f"{picture.name}.png"] = png_of(picture.svg)
    for name, content in files.items():
        (path / name).write_bytes(content)
    with zipfile.ZipFile(path / ZIP, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in files:
            archive.write(path / name, f"{path.name}/{name}")


def _markdown(run: Run, view: View) -> str:
    """The pictures stand one below the other: three side by side could not be read."""
    parts = ["## The cost of `__torch_function__`", render(run, "markdown").rstrip()]
    for section in view.sections:
        if section.pictures:
            parts.append(f"### {escaped(section.title)}")
            parts += [
                f"{each.title}: ![{each.title}]({each.name}.png)" for each in section.pictures
            ]
    return "\n\n".join(parts) + "\n"
