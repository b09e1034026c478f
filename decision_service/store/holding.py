"""Who has the store: at most one process has a SQLite file, while replicas share PostgreSQL.

The lock is the operating system's, on a file beside the database. It ends with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from sqlalchemy import Connection, text

from decision_service.store.engine import APPLICATION, StoreError, make_private_file, sqlite_file

SUFFIX = "-lock"
WAIT_S = 2.0
LOOK_EVERY_S = 0.05
OTHER_SESSIONS = text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = :name AND pid <> pg_backend_pid()"
)


@contextmanager
def held(database_url: str, data_dir: Path, wait_s: float = WAIT_S) -> Iterator[None]:
    """The SQLite file of these settings is ours alone. PostgreSQL: nothing is held.

    ``wait_s`` is for a process that is just ending. Raises StoreError when another one has it.
    """
    database = sqlite_file(database_url, data_dir)
    if database is None:
        yield
        return
    path = database.with_name(database.name + SUFFIX)
    make_private_file(path)
    descriptor = os.open(path, os.O_RDWR)
    try:
        _lock(descriptor, database, wait_s)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, database: Path, wait_s: float) -> None:
    until = monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if monotonic() >= until:
                raise StoreError(
                    f"{database} is in use by another process{_owner(descriptor)}: stop that one first, or use"
                    " another data directory (OMNIROUTE_DATA_DIR)"
                ) from None
        except OSError as error:
            raise StoreError(f"{database} cannot be locked: {error.strerror}; use a local file system") from None
        sleep(LOOK_EVERY_S)


def _owner(descriptor: int) -> str:
    with suppress(ValueError):
        return f" ({int(os.pread(descriptor, 32, 0))})"
    return ""


def refuse_other_sessions(connection: Connection) -> None:
    """PostgreSQL: raises StoreError while another session of this program is open on the database."""
    if connection.dialect.name != "postgresql":
        return
    others = connection.execute(OTHER_SESSIONS, {"name": APPLICATION}).scalar_one()
    if others:
        raise StoreError(f"{others} sessions of decision services are open on the database: stop the services first")
