"""Where torchmark keeps what can be made again: the user's cache directory."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """The directory, which need not exist; below nowhere for a user without a home."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root if os.path.isabs(root) else os.devnull) / "torchmark"
