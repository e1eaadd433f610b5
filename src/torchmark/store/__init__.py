"""Records kept: runs and the results of their cases, in SQLite or PostgreSQL.

`open_store` gives a `Store`; every method of it is one short transaction, done when it returns.
"""

from __future__ import annotations

from torchmark.store.database import artifact_folder, default_path
from torchmark.store.store import RunSummary, Store, new_run_id, open_store

__all__ = ["RunSummary", "Store", "artifact_folder", "default_path", "new_run_id", "open_store"]
