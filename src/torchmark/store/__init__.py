"""Stores runs and the results of their cases in SQLite or PostgreSQL.

`open_store` returns a `Store`. Each of its methods is one short transaction, committed when the
method returns.
"""

from __future__ import annotations

from torchmark.store.database import artifact_folder, default_path
from torchmark.store.store import Store, new_run_id, open_store

__all__ = ["Store", "artifact_folder", "default_path", "new_run_id", "open_store"]
