"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_api_keys()
    _create_audit()
    _create_combos()
    _create_connections()
    _create_health_states()
    _create_key_check()
    _create_mappings()
    _create_model_overrides()
    _create_outcomes()
    _create_providers()
    _create_revision()
    _create_settings()
    _create_overrides()
    op.execute("INSERT INTO revision (id, value) VALUES (1, 0)")


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("allowed_models", sa.Text(), nullable=False),
        sa.Column("allowed_connections", sa.Text(), nullable=False),
        sa.Column("requests_per_minute", sa.BigInteger(), nullable=False),
        sa.Column("tokens_per_minute", sa.BigInteger(), nullable=False),
        sa.Column("usd_per_day", sa.Float(), nullable=False),
        sa.Column("usd_per_month", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_keys_digest")),
    )


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"], unique=False)


def _create_combos() -> None:
    op.create_table(
        "combos",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("strategy", sa.String(length=32), nullable=False),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_combos")),
        sa.UniqueConstraint("name", name=op.f("uq_combos_name")),
    )


def _create_connections() -> None:
    op.create_table(
        "connections",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("provider", sa.String(length=128), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("default_model", sa.Text(), nullable=False),
        sa.Column("models", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("account_tier", sa.String(length=16), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("credential_kind", sa.String(length=16), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("fingerprint", sa.String(length=16), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("renewable", sa.Boolean(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_connections")),
    )
    op.create_index(op.f("ix_connections_provider"), "connections", ["provider"], unique=False)


def _create_health_states() -> None:
    op.create_table(
        "health_states",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "key", name=op.f("pk_health_states")),
    )


def _create_key_check() -> None:
    op.create_table(
        "key_check",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_key_check")),
    )


def _create_mappings() -> None:
    op.create_table(
        "mappings",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("pattern", sa.String(length=256), nullable=False),
        sa.Column("combo", sa.String(length=128), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mappings")),
        sa.UniqueConstraint("pattern", "priority", name=op.f("uq_mappings_pattern_priority")),
    )


def _create_model_overrides() -> None:
    op.create_table(
        "model_overrides",
        sa.Column("provider", sa.String(length=128), nullable=False),
        sa.Column("model", sa.String(length=256), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "model", name=op.f("pk_model_overrides")),
    )


def _create_outcomes() -> None:
    op.create_table(
        "outcomes",
        sa.Column("decision_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("api_key_id", sa.Text(), nullable=False),
        sa.Column("combo", sa.Text(), nullable=False),
        sa.Column("outcome_class", sa.Text(), nullable=False),
        sa.Column("http_status", sa.Integer(), nullable=False),
        sa.Column("latency_ms", sa.BigInteger(), nullable=False),
        sa.Column("ttft_ms", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Float(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("usage_estimated", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("decision_id", "attempt", name=op.f("pk_outcomes")),
    )
    op.create_index("ix_outcomes_at", "outcomes", ["at"], unique=False)


def _create_providers() -> None:
    op.create_table(
        "providers",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("provider_class", sa.String(length=16), nullable=False),
        sa.Column("dialect", sa.String(length=16), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_providers")),
    )


def _create_revision() -> None:
    op.create_table(
        "revision",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_revision")),
    )


def _create_settings() -> None:
    op.create_table(
        "settings",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_settings")),
    )


def _create_overrides() -> None:
    op.create_table(
        "overrides",
        sa.Column("api_key_id", sa.String(length=128), nullable=False),
        sa.Column("channel", sa.String(length=64), nullable=False),
        sa.Column("candidates", sa.Text(), nullable=False),
        sa.Column("order", sa.Text(), nullable=False),
        sa.Column("strategy", sa.String(length=32), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["api_key_id"], ["api_keys.id"], name=op.f("fk_overrides_api_key_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("api_key_id", "channel", name=op.f("pk_overrides")),
    )


def downgrade() -> None:
    op.drop_table("overrides")
    op.drop_table("settings")
    op.drop_table("revision")
    op.drop_table("providers")
    op.drop_table("outcomes")
    op.drop_table("model_overrides")
    op.drop_table("mappings")
    op.drop_table("key_check")
    op.drop_table("health_states")
    op.drop_table("connections")
    op.drop_table("combos")
    op.drop_table("audit")
    op.drop_table("api_keys")
