"""Opening the store: SQLite in a file of our own, or PostgreSQL; the same code above both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

FILE_NAME = "omniroute.db"
APPLICATION = "omniroute-decision"  # what PostgreSQL calls our sessions
BUSY_TIMEOUT_MS = 5_000
POOL_TIMEOUT_S = 10.0
READ_ONLY = "omniroute_read_only"

# synchronous=FULL: in WAL mode NORMAL does not sync at commit, so that a power cut could take back a report that was
# acknowledged. One sync serves a whole batch of the journal, which is what makes it cheap.
PRAGMAS = (
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)


class StoreError(Exception):
    """The store cannot be used; the text says why and what to do."""


def cause(error: Exception) -> str:
    """The driver's words, without the statement and its values."""
    return str(getattr(error, "orig", None) or type(error).__name__)[:200]


def open_engine(database_url: str, data_dir: Path) -> Engine:
    """The engine of ``database_url``, or of SQLite in ``data_dir`` when that is empty.

    ``sqlite:///path`` and ``postgresql://...`` are understood. A new SQLite file is readable by its owner alone. Raises
    StoreError.
    """
    url = _url(database_url, data_dir)
    if url.get_backend_name() == "postgresql":
        return _open_postgresql(url)
    make_private_file(Path(url.database or ""))
    engine = create_engine(url, pool_timeout=POOL_TIMEOUT_S, max_overflow=0)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _open_postgresql(url: URL) -> Engine:
    told = {"connect_timeout": 10, "application_name": APPLICATION}
    try:
        return create_engine(url, pool_timeout=POOL_TIMEOUT_S, pool_pre_ping=True, connect_args=told)
    except ModuleNotFoundError:
        raise StoreError("PostgreSQL needs the driver psycopg: install the extra `postgres`") from None


def _url(database_url: str, data_dir: Path) -> URL:
    if not database_url:
        return URL.create("sqlite", database=str(data_dir / FILE_NAME))
    try:
        url = make_url(database_url)
    except ArgumentError:
        raise StoreError(
            "OMNIROUTE_DATABASE_URL: cannot be read; allowed: sqlite:///path or postgresql://..."
        ) from None
    backend = url.get_backend_name()
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite" or not url.database or url.database == ":memory:":
        raise StoreError(
            f"OMNIROUTE_DATABASE_URL: a database of kind {backend!r}; allowed: sqlite:///path or postgresql://..."
        )
    return url


def sqlite_file(database_url: str, data_dir: Path) -> Path | None:
    """The file of a SQLite store; None: it is PostgreSQL. Raises StoreError."""
    url = _url(database_url, data_dir)
    return None if url.get_backend_name() == "postgresql" else Path(url.database or "")


def make_private_file(path: Path) -> None:
    """Make sure of a file that its owner alone can read, and of its folder. Raises StoreError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from None


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins no transactions of its own
    for pragma in PRAGMAS:
        connection.execute(pragma)


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that means to write takes the write lock at once: upgrading a read lock later can fail unheard.
    read_only = connection.get_execution_options().get(READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
