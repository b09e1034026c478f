"""Bringing the store to the present tables."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from decision_service.store import migrations
from decision_service.store.engine import StoreError

ADVISORY_LOCK = 0x6F6D6E69


def migrate(engine: Engine) -> None:
    """Create or upgrade the tables. Several processes may call it at once on one database: they go one after another.

    Raises StoreError when the store was written by a later version.
    """
    with engine.begin() as connection:  # SQLite: the write lock is taken here
        in_turn(connection)
        if revision_of(connection) != migrations.HEAD:
            upgrade(connection)


def in_turn(connection: Connection) -> None:
    """Until the transaction ends, no other process changes the tables."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})


def revision_of(connection: Connection) -> str | None:
    """The revision of the tables; None: there are none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def upgrade(connection: Connection, revision: str = migrations.HEAD) -> None:
    """Bring the tables to a revision. Raises StoreError when this version does not know it, or the present one."""
    # Alembic costs as much start-up as all the rest of the store, and is needed once in the life of a database.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, revision)
    except CommandError:
        raise StoreError("the store was written by a later version of this service; start that version") from None
