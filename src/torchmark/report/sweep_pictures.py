"""The pictures of a sweep as PNG files beside its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.flame.svg import png_of
from torchmark.model.units import ordered_unique
from torchmark.report.plot_figure import figure_svg
from torchmark.report.sweep_plots import scaling, speed_up
from torchmark.report.sweep_roofline import roofline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchmark.model.sweep_record import SweepRow
    from torchmark.report.plot_figure import Figure
    from torchmark.report.sweep_roofline import Roofs

_SHARPNESS = 2
"""Pixels of a PNG for each of the drawing, so that it can be enlarged and printed."""


def pictures(rows: Sequence[SweepRow], roofs: Roofs | None = None) -> dict[str, Figure]:
    """Those that the rows have data for, by the name that ends the file's."""
    drawn = {"scaling": scaling(rows), "speedup": speed_up(rows), "roofline": roofline(rows, roofs)}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def write_pictures(
    rows: Sequence[SweepRow], folder: Path, stem: str, roofs: Roofs | None = None
) -> list[Path]:
    """`<stem>-scaling.png`, `<stem>-speedup.png` and `<stem>-roofline.png`, where there is data.

    Drawn by vl-convert, which is the extra `report`.
    """
    subject = ", ".join(ordered_unique(row.model for row in rows))
    written = []
    for name, figure in pictures(rows, roofs).items():
        file = folder / f"{stem}-{name}.png"
        file.write_bytes(png_of(figure_svg(figure, subject), width=_SHARPNESS * figure.width))
        written.append(file)
    return written
