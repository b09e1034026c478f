"""Making a backup, also of a store that a running service writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import orjson
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from decision_service.backup import archive, rows
from decision_service.backup.archive import BackupError, Manifest
from decision_service.backup.place import Place
from decision_service.store.engine import READ_ONLY, StoreError, cause, open_engine, sqlite_file
from decision_service.store.migrate import revision_of
from decision_service.vault import KEY_FILE, Vault, VaultError, known_secret_key

PROGRAM = "omniroute-decision"


def take(place: Place, path: Path, now: int, *, with_key: bool = False) -> Manifest:
    """Write a backup of the store to ``path``; ``now`` in milliseconds. Raises BackupError.

    The secret key of the store is needed: a backup is sealed with it, and would be worth nothing without it.
    """
    try:
        key = known_secret_key(place.secret_key, place.data_dir)
        if not key:
            raise BackupError(
                f"there is no secret key: {place.key_file} does not exist and OMNIROUTE_SECRET_KEY is not set",
                "run this where the decision service runs, with its OMNIROUTE_DATA_DIR or OMNIROUTE_SECRET_KEY",
            )
        with snapshot(place) as connection, archive.writing(path, vault := Vault(key)) as parts:
            manifest = _write(connection, parts, vault, now, key if with_key else "")
    except (StoreError, VaultError) as error:
        raise BackupError(str(error)) from None
    except SQLAlchemyError as error:
        raise BackupError(f"the store cannot be read: {cause(error)}") from None
    return manifest


def _write(connection: Connection, parts: archive.Parts, vault: Vault, now: int, key: str) -> Manifest:
    revision = revision_of(connection)
    if revision is None or not vault.seen_by(connection):
        raise BackupError("the store is empty", "nothing was stored yet: start the services once")
    stored = {str(table.name): table for table in rows.stored_tables(connection)}
    counts = {name: parts.put(f"tables/{name}.jsonl", rows.lines(connection, stored[name])) for name in stored}
    manifest = Manifest(
        format=archive.FORMAT,
        revision=revision,
        version=version(PROGRAM),
        made_at=now,
        source=connection.dialect.name,
        key=vault.fingerprint,
        with_key=bool(key),
        tables={name: [*map(str, table.columns.keys())] for name, table in stored.items()},
        rows=counts,
    )
    if key:
        parts.put(KEY_FILE, [f"{key}\n".encode()])
    parts.put(
        archive.MANIFEST, [orjson.dumps(asdict(manifest), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)]
    )
    return manifest


@contextmanager
def snapshot(place: Place) -> Iterator[Connection]:
    """One transaction that sees one state of the whole store, whatever is written meanwhile. Raises BackupError."""
    file = sqlite_file(place.database_url, place.data_dir)
    if file is not None and not file.is_file():
        raise BackupError(f"there is no store at {file}", "OMNIROUTE_DATA_DIR or --data-dir say where it is")
    engine = open_engine(place.database_url, place.data_dir)
    try:
        with _reader(engine) as connection:
            yield connection
    finally:
        engine.dispose()


def _reader(engine: Engine) -> Connection:
    postgresql = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
    return engine.connect().execution_options(**{READ_ONLY: True}, **postgresql)
