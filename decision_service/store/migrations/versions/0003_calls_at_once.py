"""Calls at once with a connection."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("connections", sa.Column("max_concurrent", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("connections", "max_concurrent")
