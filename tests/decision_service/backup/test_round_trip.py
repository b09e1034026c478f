"""What comes back is what was there, from and into every database."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, insert, select, text

from decision_service.backup import BackupError, Manifest, Place, open_backup, restore, take
from decision_service.store import migrations, tables
from decision_service.store.engine import open_engine
from decision_service.store.holding import held
from decision_service.store.migrate import migrate, upgrade
from decision_service.vault import KEY_FILE, Vault
from tests.decision_service.backup.conftest import NOW, ROWS, SECRET_KEY, content, fill


def put_back(path: Path, place: Place, *, force: bool = False) -> None:
    with open_backup(path, place) as (backup, key):
        restore(backup, key, place, force=force)


def test_everything_comes_back(place: Place, other_database_url: str, tmp_path: Path) -> None:
    manifest = take(place, tmp_path / "backup", NOW)
    other = Place(tmp_path / "other", other_database_url, SECRET_KEY)
    put_back(tmp_path / "backup", other)
    before, after = content(place), content(other)
    assert after == before
    assert {name: len(rows) for name, rows in after.items()} == dict(manifest.rows)
    assert all(after[name] for name in ROWS)
    assert not other.key_file.exists()


def test_what_is_added_afterwards_is_numbered_on(place: Place, other_database_url: str, tmp_path: Path) -> None:
    take(place, tmp_path / "backup", NOW)
    other = Place(tmp_path / "other", other_database_url, SECRET_KEY)
    put_back(tmp_path / "backup", other)
    engine = open_engine(other.database_url, other.data_dir)
    line = {name: value for name, value in ROWS["audit"][0].items() if name != "id"}
    with engine.begin() as connection:
        connection.execute(insert(tables.audit).values(line))
        assert connection.execute(select(tables.audit.c.id).order_by(tables.audit.c.id)).scalars().all() == [3, 8, 9]
    engine.dispose()


def test_the_manifest_says_what_it_is(place: Place, tmp_path: Path) -> None:
    take(place, tmp_path / "backup", NOW)
    with open_backup(tmp_path / "backup", place) as (backup, key):
        told = backup.manifest
    assert key == SECRET_KEY
    assert (told.format, told.revision, told.made_at, told.with_key) == (1, migrations.HEAD, NOW, False)
    assert told.key == Vault(SECRET_KEY).fingerprint
    assert told.version
    assert isinstance(told, Manifest)
    assert stat.S_IMODE((tmp_path / "backup").stat().st_mode) == 0o600


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_only_its_owner_reads_it(
    place: Place, elsewhere: Place, tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os  # noqa: PLC0415

    before = os.umask(umask)
    try:
        take(place, tmp_path / "backup", NOW, with_key=True)
        put_back(tmp_path / "backup", elsewhere)
    finally:
        os.umask(before)
    made = [tmp_path / "backup", *elsewhere.data_dir.iterdir()]
    assert len(made) >= 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}


def test_the_key_goes_with_it_when_it_is_asked_for(place: Place, elsewhere: Place, tmp_path: Path) -> None:
    take(place, tmp_path / "bare", NOW)
    take(place, tmp_path / "whole", NOW, with_key=True)
    with pytest.raises(BackupError, match="needs the secret key"):
        put_back(tmp_path / "bare", elsewhere)
    assert not elsewhere.data_dir.exists()
    put_back(tmp_path / "whole", elsewhere)
    assert elsewhere.key_file.read_text() == place.key_file.read_text()
    assert SECRET_KEY.encode() not in (tmp_path / "bare").read_bytes()


def test_another_key_does_not_open_it(place: Place, elsewhere: Place, tmp_path: Path) -> None:
    take(place, tmp_path / "backup", NOW, with_key=True)
    wrong = replace(elsewhere, secret_key="quite another secret key")
    with pytest.raises(BackupError, match=f"under the secret key {Vault(SECRET_KEY).fingerprint}") as refused:
        put_back(tmp_path / "backup", wrong)
    assert "OMNIROUTE_SECRET_KEY" in refused.value.advice
    assert not wrong.data_dir.exists()


def test_a_key_that_is_not_the_stores_makes_no_backup(place: Place, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="another secret key"):
        take(replace(place, secret_key="quite another secret key"), tmp_path / "backup", NOW)
    place.key_file.unlink()
    with pytest.raises(BackupError, match="no secret key"):
        take(place, tmp_path / "backup", NOW)
    assert [path.name for path in tmp_path.iterdir() if "backup" in path.name] == []


def test_a_backup_is_never_written_over(place: Place, tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("mine")
    with pytest.raises(BackupError, match="there already"):
        take(place, tmp_path / "backup", NOW)
    assert (tmp_path / "backup").read_text() == "mine"


def test_where_nothing_is_nothing_is_made(elsewhere: Place, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="no store"):
        take(replace(elsewhere, secret_key=SECRET_KEY), tmp_path / "backup", NOW)
    assert not elsewhere.data_dir.exists()


def test_a_store_that_is_there_goes_only_by_force(
    place: Place, other_database_url: str, tmp_path: Path, small: Path
) -> None:
    take(place, tmp_path / "backup", NOW)
    other = Place(tmp_path / "other", other_database_url, SECRET_KEY)
    put_back(small, other)
    before = content(other)
    with pytest.raises(BackupError, match="holds a store already") as refused:
        put_back(tmp_path / "backup", other)
    assert "--force" in refused.value.advice
    assert content(other) == before
    put_back(tmp_path / "backup", other, force=True)
    assert content(other) == content(place)


def test_a_store_in_use_is_left_alone(place: Place, elsewhere: Place, tmp_path: Path) -> None:
    take(place, tmp_path / "backup", NOW, with_key=True)
    with held("", elsewhere.data_dir), pytest.raises(BackupError, match="in use by another process"):
        put_back(tmp_path / "backup", elsewhere, force=True)
    assert not elsewhere.key_file.exists()


@pytest.mark.full
def test_open_sessions_on_postgresql_are_in_use(postgres: str, place: Place, tmp_path: Path) -> None:
    take(place, tmp_path / "backup", NOW)
    engine = open_engine(postgres, tmp_path)
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        with pytest.raises(BackupError, match="sessions of decision services"):
            put_back(tmp_path / "backup", Place(tmp_path, postgres), force=True)
    engine.dispose()


def test_a_backup_of_earlier_tables_becomes_the_present_ones(elsewhere: Place, tmp_path: Path) -> None:
    engine = open_engine("", tmp_path)
    with engine.begin() as connection:
        upgrade(connection, "0001")
        connection.execute(text("INSERT INTO settings VALUES ('settings', '{}', 1, 2, 3)"))
    Vault(SECRET_KEY).verify(engine)
    engine.dispose()
    manifest = take(Place(tmp_path, secret_key=SECRET_KEY), tmp_path / "backup", NOW, with_key=True)
    assert manifest.revision == "0001"
    assert "synced_knowledge" not in manifest.tables
    put_back(tmp_path / "backup", elsewhere)
    assert [row[0] for row in content(elsewhere)["settings"]] == ["settings"]
    assert content(elsewhere)["synced_knowledge"] == []


def test_a_backup_sees_one_state_while_others_write(place: Place, elsewhere: Place, tmp_path: Path) -> None:
    """A row that is written while the tables are read is in none of them."""
    engine: Engine = open_engine(place.database_url, place.data_dir)
    before = content(place)
    import threading  # noqa: PLC0415

    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            row = ROWS["outcomes"][0] | {"decision_id": f"new_{number}"}
            with engine.begin() as connection:
                connection.execute(insert(tables.outcomes).values(row))
                connection.execute(
                    insert(tables.health_states).values(kind="n", key=str(number), state="", updated_at=0)
                )

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            take(place, tmp_path / f"backup-{number}", NOW, with_key=True)
    finally:
        stop.set()
        writer.join()
    engine.dispose()
    put_back(tmp_path / "backup-2", elsewhere)
    after = content(elsewhere)
    outcomes = [row for row in after["outcomes"] if row[0].startswith("new_")]
    states = [row for row in after["health_states"] if row[0] == "n"]
    assert len(outcomes) == len(states) > 0
    assert len(after["outcomes"]) == len(before["outcomes"]) + len(outcomes)


def test_filled_stores_differ_from_fresh_ones(place: Place, tmp_path: Path) -> None:
    """What the others compare is not empty."""
    fresh = open_engine("", tmp_path / "fresh")
    migrate(fresh)
    fresh.dispose()
    empty = content(Place(tmp_path / "fresh"))
    filled = content(place)
    assert {name for name in filled if filled[name] != empty[name]} == {*filled}
    assert fill is not None
    assert (tmp_path / KEY_FILE).exists()
