"""The tables. Instants are milliseconds since the epoch; ``version`` grows by one at every change of a row."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)


class Json(TypeDecorator[Any]):
    """Any JSON value, stored as text: the same bytes on every database."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return orjson.dumps(value).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return orjson.loads(value)


class Texts(Json):
    """A tuple of texts, stored as a JSON list."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return orjson.dumps(list(value)).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[str, ...]:
        return tuple(orjson.loads(value))


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


def _stamp() -> tuple[Column[int], Column[int], Column[int]]:
    return (
        Column("version", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
    )


# One row: grows with every change of what follows, and its lock puts the changes in a row.
revision = Table(
    "revision",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("value", BigInteger, nullable=False),
)

# One row: tells a wrong secret key from the right one.
key_check = Table(
    "key_check",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False),
)

providers = Table(
    "providers",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("name", Text, nullable=False),
    Column("provider_class", String(16), nullable=False),
    Column("dialect", String(16), nullable=False),
    Column("base_url", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    *_stamp(),
)

connections = Table(
    "connections",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("provider", String(128), nullable=False, index=True),
    Column("label", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("default_model", Text, nullable=False),
    Column("models", Texts, nullable=False),
    Column("base_url", Text, nullable=False),
    Column("account_tier", String(16), nullable=False),
    Column("max_concurrent", Integer, nullable=False, server_default="0"),
    Column("origin", String(16), nullable=False),
    Column("credential_kind", String(16), nullable=False),
    Column("reference", Text, nullable=False),
    Column("sealed", LargeBinary),
    Column("fingerprint", String(16), nullable=False),
    Column("expires_at", BigInteger),
    Column("renewable", Boolean, nullable=False),
    *_stamp(),
)

combos = Table(
    "combos",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("name", String(128), nullable=False, unique=True),
    Column("strategy", String(32), nullable=False),
    Column("steps", Json, nullable=False),
    Column("config", Json, nullable=False),
    Column("description", Text, nullable=False),
    Column("sealed", LargeBinary),
    *_stamp(),
)

mappings = Table(
    "mappings",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("pattern", String(256), nullable=False),
    Column("combo", String(128), nullable=False),
    Column("priority", Integer, nullable=False),
    *_stamp(),
    UniqueConstraint("pattern", "priority"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("prefix", String(16), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("scopes", Texts, nullable=False),
    Column("allowed_models", Texts, nullable=False),
    Column("allowed_connections", Texts, nullable=False),
    Column("requests_per_minute", BigInteger, nullable=False),
    Column("tokens_per_minute", BigInteger, nullable=False),
    Column("usd_per_day", Float, nullable=False),
    Column("usd_per_month", Float, nullable=False),
    Column("expires_at", BigInteger),
    *_stamp(),
)

overrides = Table(
    "overrides",
    metadata,
    Column("api_key_id", String(128), ForeignKey("api_keys.id", ondelete="CASCADE"), primary_key=True),
    Column("channel", String(64), primary_key=True),
    Column("candidates", Json, nullable=False),
    Column("order", Texts, nullable=False),
    Column("strategy", String(32), nullable=False),
    *_stamp(),
)

settings = Table(
    "settings",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("settings", Json, nullable=False),
    *_stamp(),
)

model_overrides = Table(
    "model_overrides",
    metadata,
    Column("provider", String(128), primary_key=True),
    Column("model", String(256), primary_key=True),
    Column("facts", Json, nullable=False),
    *_stamp(),
)

synced_knowledge = Table(
    "synced_knowledge",
    metadata,
    Column("source", String(32), primary_key=True),
    Column("known", Json, nullable=False),
    Column("fetched_at", BigInteger, nullable=False),
)

health_states = Table(
    "health_states",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("decision_id", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("target_id", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("api_key_id", Text, nullable=False),
    Column("combo", Text, nullable=False),
    Column("outcome_class", Text, nullable=False),
    Column("http_status", Integer, nullable=False),
    Column("latency_ms", BigInteger, nullable=False),
    Column("ttft_ms", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("cost_usd", Float, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("usage_estimated", Boolean, nullable=False),
    Index("ix_outcomes_at", "at"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False, index=True),
    Column("action", String(16), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("key", Text, nullable=False),
    Column("fields", Texts, nullable=False),
    Column("request_id", Text, nullable=False),
)
