"""Recorded traffic from a data directory or from a backup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from decision_service.backup import BackupError, Place, open_backup, restore, snapshot
from decision_service.store import migrations
from decision_service.store.engine import StoreError, cause
from decision_service.store.migrate import revision_of


@contextmanager
def opened(source: Path, place: Place) -> Iterator[Connection]:
    """A transaction over what a data directory or a backup holds; neither is changed. Raises BackupError.

    ``place`` has the secret key of a backup that brings none.
    """
    if source.is_dir():
        try:
            with snapshot(Place(source)) as connection:
                _check_revision(connection)
                yield connection
        except StoreError as error:
            raise BackupError(str(error)) from None
        except SQLAlchemyError as error:
            raise BackupError(f"the store cannot be read: {cause(error)}") from None
        return
    with TemporaryDirectory() as folder, open_backup(source, place) as (backup, key):
        there = Place(Path(folder), secret_key=key)
        restore(backup, key, there)
        with snapshot(there) as connection:
            yield connection


def _check_revision(connection: Connection) -> None:
    found = revision_of(connection)
    if found != migrations.HEAD:
        raise BackupError(
            f"the tables are at {found or 'nothing'}; this version reads {migrations.HEAD}",
            "start this version's services on it once, or replay a backup of it",
        )
