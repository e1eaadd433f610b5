"""Steps from the tables of one version to those of the next, by Alembic.

`versions/` has a revision for each version of the store, under its number. This package is imported
only where a store is of an older version: Alembic takes longer to load than a store takes to open.

The version of a store stands in `torchmark_version`, which every torchmark reads before anything
else, so Alembic keeps no table of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def migrate(connection: Connection, found: int) -> None:
    """Bring the tables from version `found` to the newest, in the transaction that is open."""
    revisions = ScriptDirectory(str(Path(__file__).parent)).iterate_revisions("head", str(found))
    with Operations.context(MigrationContext.configure(connection)):
        for revision in reversed(list(revisions)):
            revision.module.upgrade()
