"""The script that draws charts in a page: Vega, as vl-convert brings it, compressed for a page.

vl-convert takes seconds to bundle it, so it is kept in the user's cache. 0.9 MB of script are
0.4 MB in a page; browsers unpack it themselves.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import importlib.metadata
import os
import tempfile
from pathlib import Path

import platformdirs

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def load_bundle() -> str:
    """gzip in base64; empty where vl-convert, the extra `report`, is not installed."""
    try:
        version = importlib.metadata.version("vl-convert-python")
    except importlib.metadata.PackageNotFoundError:
        return ""
    folder = Path(platformdirs.user_cache_dir("torchmark", appauthor=False)) / "report"
    file = folder / f"vega-{version}.js.gz.base64"
    with contextlib.suppress(OSError):
        if file.stat().st_uid == os.getuid():
            return file.read_text("ascii")
    bundle = _make_bundle()
    with contextlib.suppress(OSError):  # a page is made without a cache too
        _keep(file, bundle)
    return bundle


def _make_bundle() -> str:
    import vl_convert  # noqa: PLC0415 - an extra

    script = vl_convert.javascript_bundle(_SNIPPET)
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode("ascii")


def _keep(file: Path, text: str) -> None:
    """Whole or not at all, and only for its user: others must not put a script into pages."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as opened:
            opened.write(text)
        os.replace(temporary, file)
    except OSError:
        os.unlink(temporary)
        raise
