"""Steps from the tables of one version to those of the next, by Alembic.

`versions/` has a revision for each version of the store, under its number. This package is imported
only where a store is of an older version: Alembic takes longer to load than a store takes to open.

The version of a store stands in `torchmark_version`, which every torchmark reads before anything
else. Alembic's own note of the revision exists only while its steps are made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from sqlalchemy import text

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_NOTE = "torchmark_revision"
"""The table of Alembic's note."""


def migrate(connection: Connection, found: int) -> None:
    """Bring the tables from version `found` to the newest, in the transaction that is open."""
    config = Config()
    # Alembic's settings may refer to others by %(name)s, so a % of a path is doubled.
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes |= {"connection": connection, "version_table": _NOTE}
    command.stamp(config, str(found))
    command.upgrade(config, "head")
    connection.execute(text(f"DROP TABLE {_NOTE}"))
