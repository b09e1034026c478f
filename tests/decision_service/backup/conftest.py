"""A store with something of everything in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select

from decision_service.backup import Place, take
from decision_service.store import sql, tables
from decision_service.store.engine import open_engine
from decision_service.store.migrate import migrate
from decision_service.vault import KEY_FILE, Vault, put_secret_key

SECRET_KEY = "the secret key of the tests"
NOW = 1_767_225_600_000
STAMP = {"version": 3, "created_at": 2**45, "updated_at": 2**45 + 1}
ROWS: Mapping[str, list[dict[str, Any]]] = {
    "providers": [
        {
            "id": "p",
            "name": "Ü",
            "provider_class": "local",
            "dialect": "openai",
            "base_url": "http://x",
            "enabled": False,
        }
    ],
    "connections": [
        {
            "id": name,
            "provider": "p",
            "label": "",
            "enabled": True,
            "default_model": "",
            "models": ("a", "ü/b"),
            "base_url": "",
            "account_tier": "pro",
            "origin": "operator",
            "credential_kind": "api_key",
            "reference": "",
            "sealed": sealed,
            "fingerprint": "f",
            "expires_at": None,
            "renewable": False,
        }
        for name, sealed in (("c1", b"\x00\xff\n"), ("c2", None))
    ],
    "combos": [
        {
            "id": "k",
            "name": "mine",
            "strategy": "auto",
            "steps": [{"w": 0.1}],
            "config": {"a": None},
            "description": "'\n",
        }
    ],
    "mappings": [{"id": "m", "pattern": "gpt-*", "combo": "mine", "priority": -1}],
    "api_keys": [
        {
            "id": "key",
            "name": "laptop",
            "digest": bytes(range(32)),
            "prefix": "or-",
            "enabled": True,
            "scopes": ("inference",),
            "allowed_models": (),
            "allowed_connections": (),
            "requests_per_minute": 2**40,
            "tokens_per_minute": 0,
            "usd_per_day": 0.1 + 0.2,
            "usd_per_month": 1e300,
            "expires_at": 7,
        }
    ],
    "overrides": [{"api_key_id": "key", "channel": "fast", "candidates": {}, "order": ("a",), "strategy": ""}],
    "settings": [{"id": "settings", "settings": {"hidePaidModels": True}}],
    "model_overrides": [{"provider": "p", "model": "a", "facts": {"input_price": 0.25}}],
    "synced_knowledge": [{"source": "arena", "known": {"a": 1}, "fetched_at": 5}],
    "health_states": [{"kind": "breaker", "key": "p\x1fc1", "state": "{}", "updated_at": 9}],
    "outcomes": [
        {
            "decision_id": f"dec_{number}",
            "attempt": 1,
            "at": number,
            "target_id": "1",
            "provider": "p",
            "model": "a",
            "connection_id": "c1",
            "api_key_id": "",
            "combo": "mine",
            "outcome_class": "SUCCESS",
            "http_status": 200,
            "latency_ms": 5,
            "ttft_ms": 0,
            "input_tokens": 10,
            "output_tokens": 3,
            "cached_tokens": 0,
            "cost_usd": 1e-9,
            "final": True,
            "usage_estimated": False,
        }
        for number in range(2_500)
    ],
    "audit": [
        {"id": number, "at": 1, "action": "create", "kind": "combo", "key": "k", "fields": ("name",), "request_id": "r"}
        for number in (3, 8)
    ],
}
STAMPED = ("providers", "connections", "combos", "mappings", "api_keys", "overrides", "settings", "model_overrides")


def fill(engine: Engine) -> None:
    """Put the rows in, and remember the secret key."""
    Vault(SECRET_KEY).verify(engine)
    with engine.begin() as connection:
        for table in tables.metadata.sorted_tables:
            stamp = STAMP if table.name in STAMPED else {}
            if rows := [row | stamp for row in ROWS.get(table.name, ())]:
                connection.execute(insert(table), rows)
        sql.next_revision(connection)


def content(place: Place) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    engine = open_engine(place.database_url, place.data_dir)
    with sql.reading(engine) as connection:
        found = {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]
            for table in tables.metadata.sorted_tables
        }
    engine.dispose()
    return found


@pytest.fixture
def place(store: Engine, database_url: str, tmp_path: Path) -> Place:
    """A filled store with a key file."""
    fill(store)
    put_secret_key(tmp_path / KEY_FILE, SECRET_KEY)
    store.dispose()
    return Place(tmp_path, database_url)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Place:
    """An empty place."""
    return Place(tmp_path / "elsewhere")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup without its key, of a store that holds nothing but what every store does."""
    folder = tmp_path_factory.mktemp("small")
    engine = open_engine("", folder)
    migrate(engine)
    Vault(SECRET_KEY).verify(engine)
    engine.dispose()
    take(Place(folder, secret_key=SECRET_KEY), folder / "backup", NOW)
    return folder / "backup"


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup without its key, of a store that holds something of everything."""
    folder = tmp_path_factory.mktemp("full")
    engine = open_engine("", folder)
    migrate(engine)
    fill(engine)
    engine.dispose()
    take(Place(folder, secret_key=SECRET_KEY), folder / "backup", NOW)
    return folder / "backup"
