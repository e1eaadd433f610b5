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
    """The report, an SVG and a PNG of each flame graph, and an archive of it all.

    PNGs come last but for the archive: where they cannot be drawn, the rest is there.
    """
    view = view_of(run)
    pictures = [picture for section in view.sections for picture in section.pictures]
    (path / MARKDOWN).write_text(_markdown(run, view), encoding="utf-8")
    (path / PAGE).write_text(render(run, "html"), encoding="utf-8")
    for picture in pictures:
        (path / f"{picture.name}.svg").write_text(picture.svg, encoding="utf-8")
    try:
        for picture in pictures:
            (path / f"{picture.name}.png").write_bytes(png_of(picture.svg))
    finally:
        with zipfile.ZipFile(path / ZIP, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(path.iterdir()):
                if file.name != ZIP:
                    archive.write(file, f"{path.name}/{file.name}")


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
