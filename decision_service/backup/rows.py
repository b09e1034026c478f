"""Rows of every table as JSON and back, as the database has them: no record's type stands between."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import orjson
from sqlalchemy import Connection, Integer, LargeBinary, MetaData, Table, func, insert, select, text

from decision_service.store import tables

ROWS_AT_ONCE = 1_000


def stored_tables(connection: Connection) -> Sequence[Table]:
    """The tables that are there, parents first, with the columns that they have at their revision."""
    found = MetaData()
    found.reflect(connection, only=lambda name, _: name in tables.metadata.tables)
    return found.sorted_tables


def lines(connection: Connection, table: Table) -> Iterator[bytes]:
    """Every row as one line of JSON: a list in the order of the columns, bytes in base64."""
    binary = _binary(table)
    for row in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(select(table)):
        values = [*row]
        for place in binary:
            values[place] = None if values[place] is None else b64encode(values[place]).decode()
        yield orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)


def fill(connection: Connection, table: Table, rows: Iterator[Sequence[Any]]) -> int:
    """Make these the rows of a table, each in the order of its columns; how many there were."""
    binary, columns, count = _binary(table), table.columns.keys(), 0
    connection.execute(table.delete())
    while some := list(islice(rows, ROWS_AT_ONCE)):
        connection.execute(insert(table), [dict(zip(columns, _read(row, binary), strict=True)) for row in some])
        count += len(some)
    _continue_numbering(connection, table)
    return count


def _binary(table: Table) -> list[int]:
    return [place for place, column in enumerate(table.columns) if isinstance(column.type, LargeBinary)]


def _read(row: Any, binary: Iterable[int]) -> Sequence[Any]:
    if not isinstance(row, list):
        raise ValueError(row)  # noqa: TRY004 - a wrong value in a file
    values = [*row]
    for place in binary:
        values[place] = None if values[place] is None else b64decode(values[place], validate=True)
    return values


def _continue_numbering(connection: Connection, table: Table) -> None:
    """PostgreSQL numbers rows by a sequence, which knows nothing of rows that bring their numbers."""
    if connection.dialect.name != "postgresql":
        return
    for column in table.primary_key.columns:
        if isinstance(column.type, Integer) and column.server_default is not None:
            highest = connection.execute(select(func.max(column))).scalar_one()
            if highest is not None:
                sequence = func.pg_get_serial_sequence(table.name, column.name)
                connection.execute(select(func.setval(sequence, highest)))


def drop_all(connection: Connection) -> None:
    """Remove our tables and their revision."""
    for table in reversed(stored_tables(connection)):
        table.drop(connection)
    connection.execute(text("DROP TABLE IF EXISTS alembic_version"))
