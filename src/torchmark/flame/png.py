"""An SVG as a PNG, without a browser: vl-convert draws it in this process, offline.

It brings a font of its own, so that a server without any still gets text in its pictures.
"""

from __future__ import annotations

import re

from torchmark.errors import InvalidArgumentError, MissingToolError

_OPENING = re.compile(r'<svg\b[^>]*?\swidth="([0-9.]+)"')


def png_of(svg: str, *, width: int = 1200) -> bytes:
    """The picture, `width` pixels wide; it is drawn as it stands, its script is not run."""
    try:
        import vl_convert  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingToolError(
            "PNG pictures need vl-convert: pip install 'torchmark[report]'. The SVG needs nothing."
        ) from error
    opening = _OPENING.search(svg)
    if opening is None:
        raise InvalidArgumentError("a PNG needs an SVG that begins with its width in pixels")
    return vl_convert.svg_to_png(svg, scale=width / float(opening[1]))
