"""The store on every database that it knows."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import IntegrityError

from decision_service.store import migrations, sql, tables
from decision_service.store.engine import StoreError, open_engine
from decision_service.store.migrate import migrate
from decision_service.store.records import (
    API_KEYS,
    COMBOS,
    CONNECTIONS,
    OVERRIDES,
    ApiKeyRecord,
    ComboRecord,
    ConnectionRecord,
    OverrideRecord,
    etag,
)


def test_migrated_tables_are_the_present_ones(store: Engine) -> None:
    with store.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": False})
        assert compare_metadata(context, tables.metadata) == []


def test_the_head_that_start_up_looks_for_is_the_last_migration() -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert scripts.get_current_head() == migrations.HEAD


def test_migrating_again_changes_nothing(store: Engine) -> None:
    migrate(store)
    with sql.reading(store) as connection:
        assert sql.present_revision(connection) == 0


def test_a_store_of_a_later_version_is_refused(store: Engine) -> None:
    with store.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="later version"):
        migrate(store)


def test_migrations_go_back(store: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with store.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    migrate(store)


def start_once(url: str, data_dir: str, done: multiprocessing.Queue[str]) -> None:
    error = "it ended early"
    try:
        engine = open_engine(url, Path(data_dir))
        migrate(engine)
        with engine.begin() as connection:
            sql.next_revision(connection)
        error = ""
    finally:
        done.put(error)


def test_processes_that_start_at_once_do_not_collide(database_url: str, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    done: multiprocessing.Queue[str] = spawn.Queue()
    started = [spawn.Process(target=start_once, args=(database_url, str(tmp_path), done)) for _ in range(4)]
    for process in started:
        process.start()
    assert [done.get(timeout=40) for _ in started] == [""] * 4
    for process in started:
        process.join(10)
    engine = open_engine(database_url, tmp_path)
    with sql.reading(engine) as connection:
        assert sql.present_revision(connection) == 4
    engine.dispose()


CONNECTION = ConnectionRecord(
    id="c1",
    provider="openai",
    models=("gpt-4o", "ü/x"),
    credential_kind="api_key",
    sealed=b"\x00\xff",
    expires_at=2**45,
    version=1,
    created_at=5,
    updated_at=6,
)


def test_records_come_back_as_they_were(store: Engine) -> None:
    combo = ComboRecord("k1", "mine", "auto", [{"id": "a", "weight": 0.5}], {"auto": {"weights": {"quota": "1"}}})
    with store.begin() as connection:
        sql.add(connection, CONNECTIONS, CONNECTION)
        sql.add(connection, COMBOS, combo)
    with sql.reading(store) as connection:
        assert sql.find(connection, CONNECTIONS, ("c1",)) == CONNECTION
        assert sql.rows(connection, COMBOS) == [combo]
        assert sql.find(connection, CONNECTIONS, ("c2",)) is None


def test_rows_stand_in_the_order_of_their_keys(store: Engine) -> None:
    ids = ["b", "a", "A", "_", "ä", "1"]
    with store.begin() as connection:
        for name in ids:
            sql.add(connection, COMBOS, ComboRecord(name, name, "auto"))
    with sql.reading(store) as connection:
        assert [record.id for record in sql.rows(connection, COMBOS)] == sorted(ids)


def test_a_failed_transaction_leaves_nothing(store: Engine) -> None:
    def two_of_one_name() -> None:
        with store.begin() as connection:
            sql.next_revision(connection)
            sql.add(connection, COMBOS, ComboRecord("a", "same", "auto"))
            sql.add(connection, COMBOS, ComboRecord("b", "same", "auto"))

    with pytest.raises(IntegrityError):
        two_of_one_name()
    with sql.reading(store) as connection:
        assert sql.rows(connection, COMBOS) == []
        assert sql.present_revision(connection) == 0


def test_a_keys_overrides_go_with_it(store: Engine) -> None:
    with store.begin() as connection:
        sql.add(connection, API_KEYS, ApiKeyRecord("k1", "one", b"d"))
        sql.add(connection, OVERRIDES, OverrideRecord("k1", "fast", {"a/b@c": {"excluded": True}}, ("x",)))
    with store.begin() as connection:
        sql.drop(connection, API_KEYS, ("k1",))
        assert sql.rows(connection, OVERRIDES) == []


def test_an_override_needs_its_key(store: Engine) -> None:
    with pytest.raises(IntegrityError), store.begin() as connection:
        sql.add(connection, OVERRIDES, OverrideRecord("nobody", "fast"))


def test_a_reader_sees_one_state_while_another_writes(store: Engine) -> None:
    with sql.reading(store) as reader:
        assert sql.present_revision(reader) == 0
        with store.begin() as writer:
            sql.next_revision(writer)
        expected = 0 if store.dialect.name == "sqlite" else 1  # PostgreSQL reads what is committed
        assert sql.present_revision(reader) == expected


def test_etags_differ_after_a_change_and_after_making_anew() -> None:
    assert len({etag(CONNECTION), etag(ConnectionRecord("c1", "openai", version=1, created_at=9, updated_at=9))}) == 2
    assert etag(ConnectionRecord("c1", "openai")) == ""


# SQLite alone


def test_the_sqlite_file_is_private_and_syncs_at_every_commit(tmp_path: Path) -> None:
    engine = open_engine("", tmp_path / "new")
    migrate(engine)
    with engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
        files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    engine.dispose()
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5_000}
    assert set(files.values()) == {0o600}
    assert "omniroute.db" in files


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "sqlite:///:memory:", "nonsense"])
def test_other_databases_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="postgresql"):
        open_engine(url, tmp_path)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        open_engine("", tmp_path / "file" / "data")
