"""Putting a backup back: one transaction, so that all of it is there afterwards, or nothing has changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from decision_service.backup import archive, rows
from decision_service.backup.archive import Backup, BackupError
from decision_service.backup.place import Place
from decision_service.store.engine import StoreError, cause, open_engine, sqlite_file
from decision_service.store.holding import held, refuse_other_sessions
from decision_service.store.migrate import in_turn, revision_of, upgrade
from decision_service.vault import Vault, VaultError, known_secret_key, put_secret_key


@contextmanager
def open_backup(path: Path, place: Place) -> Iterator[tuple[Backup, str]]:
    """A verified backup and its secret key: that of the place, else the one inside. Raises BackupError."""
    with archive.opened(path) as backup:
        try:
            key = known_secret_key(place.secret_key, place.data_dir) or backup.secret_key()
            if not key:
                raise BackupError(
                    f"{path} needs the secret key {backup.manifest.key}, which is not in it",
                    f"set OMNIROUTE_SECRET_KEY to it, or put the key file back as {place.key_file} (mode 0600)",
                )
            backup.verify(Vault(key))
        except VaultError as error:
            raise BackupError(str(error)) from None
        yield backup, key


def restore(backup: Backup, key: str, place: Place, *, force: bool = False) -> None:
    """Make the store what it was, in an empty place; ``force``: in place of what is there. Raises BackupError.

    A key file is made where the place has no secret key; one that is there is never changed.
    """
    try:
        with held(place.database_url, place.data_dir, wait_s=0), _key_in_place(place, key):
            engine = open_engine(place.database_url, place.data_dir)
            try:
                with engine.begin() as connection:
                    _replace(connection, backup, place, force=force)
            finally:
                engine.dispose()
    except StoreError as error:
        raise BackupError(str(error)) from None
    except SQLAlchemyError as error:
        raise BackupError(f"the store cannot be written: {cause(error)}", _unreadable(place)) from None
    except OSError as error:
        raise BackupError(f"{place.data_dir} cannot be written: {error.strerror}") from None


@contextmanager
def _key_in_place(place: Place, key: str) -> Iterator[None]:
    """Before the store: it could not be opened without. Where the store fails, a key that was made goes again."""
    if place.secret_key or place.key_file.exists():
        yield
        return
    place.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    put_secret_key(place.key_file, key)
    try:
        archive.sync_folder(place.data_dir)
        yield
    except BaseException:
        place.key_file.unlink()
        raise


def _replace(connection: Connection, backup: Backup, place: Place, *, force: bool) -> None:
    """The tables at the revision of the backup, with its rows, and from there to the present revision."""
    in_turn(connection)
    refuse_other_sessions(connection)
    if revision_of(connection) is not None and not force:
        where = sqlite_file(place.database_url, place.data_dir) or "the database"
        raise BackupError(f"{where} holds a store already", "--force puts the backup in its place; back it up first")
    manifest = backup.manifest
    rows.drop_all(connection)
    try:
        upgrade(connection, manifest.revision)
    except StoreError:
        raise BackupError(
            f"{backup.path} was made by a later version ({manifest.version}, tables at {manifest.revision})",
            "restore it with that version or a later one",
        ) from None
    with backup.reading():
        _fill(connection, backup)
    upgrade(connection)


def _fill(connection: Connection, backup: Backup) -> None:
    """Raises ValueError where the backup does not have what its manifest says."""
    manifest = backup.manifest
    stored = {str(table.name): table for table in rows.stored_tables(connection)}
    columns = {name: [*map(str, table.columns.keys())] for name, table in stored.items()}
    if revision_of(connection) != manifest.revision or columns != manifest.tables:
        raise ValueError(manifest.revision)
    counts = {name: rows.fill(connection, table, backup.rows(name)) for name, table in stored.items()}
    if counts != manifest.rows:
        raise ValueError(counts)


def _unreadable(place: Place) -> str:
    file = sqlite_file(place.database_url, place.data_dir)
    return "" if file is None else f"if {file} is damaged, move it and its -wal and -shm away and restore again"
