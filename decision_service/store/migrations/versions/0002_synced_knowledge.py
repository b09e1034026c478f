"""What outside sources tell of models."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "synced_knowledge",
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("known", sa.Text(), nullable=False),
        sa.Column("fetched_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_synced_knowledge")),
    )


def downgrade() -> None:
    op.drop_table("synced_knowledge")
