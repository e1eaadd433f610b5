"""The tables of torchmark 0.1."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, Text, UniqueConstraint, text

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "torchmark_version", Column("version", Integer, nullable=False, primary_key=True)
    )
    op.create_table(
        "torchmark_runs",
        Column("id", Text, primary_key=True),
        Column("started", Text, nullable=False),
        Column("state", Text, nullable=False),
        Column("planned", Integer, nullable=False),
        Column("environment", Text, nullable=False),
        Column("record", LargeBinary, nullable=False),
    )
    op.create_table(
        "torchmark_tags",
        Column("place", Integer, primary_key=True),
        Column("run_id", Text, ForeignKey("torchmark_runs.id"), nullable=False),
        Column("tag", Text, nullable=False),
        UniqueConstraint("run_id", "tag"),
    )
    op.create_table(
        "torchmark_results",
        Column("place", Integer, primary_key=True),
        Column("run_id", Text, ForeignKey("torchmark_runs.id"), nullable=False),
        Column("case_id", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("outcome", Text, nullable=False),
        Column("record", LargeBinary, nullable=False),
        UniqueConstraint("run_id", "case_id", "kind"),
    )
    op.execute(text("INSERT INTO torchmark_version VALUES (1)"))
