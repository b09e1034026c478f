"""The statements that every stored resource shares, over the description of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine, Table, and_, delete, insert, select, update
from sqlalchemy.sql import ColumnElement

from decision_service.store import tables
from decision_service.store.engine import READ_ONLY

R = TypeVar("R")
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shelf(Generic[R]):
    """One kind of stored thing: its table, the value of a row, and the columns that name it."""

    kind: str
    table: Table
    record: type[R]
    key: tuple[str, ...] = ("id",)

    def key_of(self, record: R) -> Key:
        return tuple(getattr(record, name) for name in self.key)

    def where(self, key: Key) -> ColumnElement[bool]:
        return and_(*(self.table.c[name] == part for name, part in zip(self.key, key, strict=True)))


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that sees one state of the store and writes nothing."""
    with engine.connect().execution_options(**{READ_ONLY: True}) as connection:
        yield connection


def rows(connection: Connection, shelf: Shelf[R]) -> list[R]:
    """All records in the order of their keys, by code point on every database."""
    found = [shelf.record(**row) for row in connection.execute(select(shelf.table)).mappings()]
    return sorted(found, key=shelf.key_of)


def find(connection: Connection, shelf: Shelf[R], key: Key) -> R | None:
    """One record by its key."""
    row = connection.execute(select(shelf.table).where(shelf.where(key))).mappings().one_or_none()
    return None if row is None else shelf.record(**row)


def columns_of(record: Any) -> dict[str, Any]:
    """A record as a row."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def add(connection: Connection, shelf: Shelf[R], record: R) -> None:
    connection.execute(insert(shelf.table).values(columns_of(record)))


def put(connection: Connection, shelf: Shelf[R], record: R) -> None:
    """Overwrite the row that has the record's key."""
    connection.execute(update(shelf.table).where(shelf.where(shelf.key_of(record))).values(columns_of(record)))


def drop(connection: Connection, shelf: Shelf[R], key: Key) -> None:
    connection.execute(delete(shelf.table).where(shelf.where(key)))


def next_revision(connection: Connection) -> int:
    """Begin a change: the one row is locked until the transaction ends, so that changes go one after another."""
    row = tables.revision
    return int(connection.execute(update(row).values(value=row.c.value + 1).returning(row.c.value)).scalar_one())


def present_revision(connection: Connection) -> int:
    return int(connection.execute(select(tables.revision.c.value)).scalar_one())


@dataclass(frozen=True, slots=True)
class AuditLine:
    """Who changed what. ``fields`` are names only: values may be secret."""

    at: int
    action: str
    kind: str
    key: str
    fields: tuple[str, ...] = ()
    request_id: str = ""


def note(connection: Connection, line: AuditLine) -> None:
    """Add a line to the audit log."""
    connection.execute(insert(tables.audit).values(columns_of(line)))
