"""The page of a sweep, and its pictures beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from torchmark.engine.files import write_whole
from torchmark.errors import MissingToolError, OutputFileError
from torchmark.report import sweep_page, sweep_pictures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchmark.model.sweep_record import SweepRow
    from torchmark.report.sweep_roofline import Roofs


def write_page(
    file: Path,
    rows: Sequence[SweepRow],
    environment: Mapping[str, Any],
    roofs: Roofs | None = None,
) -> None:
    """Write both and say so; without the program that draws PNGs the page is all there is."""
    try:
        write_whole(file, sweep_page.render(rows, environment=environment, roofs=roofs).encode())
        click.echo(f"{file}: the page")
        for picture in sweep_pictures.write_pictures(rows, file.parent, file.stem, roofs):
            click.echo(f"{picture}: a picture of it")
    except MissingToolError as error:
        click.echo(f"torchmark: no pictures beside the page: {error}", err=True)
    except OSError as error:
        raise OutputFileError(
            f"{file} or its pictures cannot be written: {error.strerror}; the rows are kept, and "
            "the same command makes the page of them"
        ) from error
