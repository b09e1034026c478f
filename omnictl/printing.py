"""Answers on standard output: JSON for programs, tables for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson
from google.protobuf import json_format, message, struct_pb2, timestamp_pb2
from google.protobuf.descriptor import EnumDescriptor
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from omnictl.problems import printable

R = TypeVar("R")
WIDE = 10_000  # columns where no person looks: nothing is cut or wrapped in a pipe
NOTHING = "-"


def plain(value: Any) -> Any:
    """A message as plain values: names as in the contract, enums in their short form; what is unset is left out."""
    if isinstance(value, timestamp_pb2.Timestamp):
        return value.ToJsonString()
    if isinstance(value, struct_pb2.Struct | struct_pb2.Value):
        return _whole(json_format.MessageToDict(value))
    if isinstance(value, message.Message):
        fields = [f for f in value.DESCRIPTOR.fields if not f.has_presence or value.HasField(f.name)]
        return {field.name: _field(field, getattr(value, field.name)) for field in fields}
    return value


def _field(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return {key: plain(item) for key, item in sorted(value.items())}
    one = plain if field.enum_type is None else (lambda number: short(field.enum_type, number))
    return [one(item) for item in value] if field.is_repeated else one(value)


def _whole(value: Any) -> Any:
    """Numbers of a Struct, which are doubles, without the point where nothing follows it."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def short(enum: EnumDescriptor, number: int) -> str:
    """``SINGLE`` for ``SHAPE_SINGLE``."""
    known = enum.values_by_number.get(number)
    prefix = "".join(f"_{char}" if char.isupper() else char for char in enum.name).lstrip("_").upper() + "_"
    return known.name.removeprefix(prefix) if known else str(number)


def show_line(value: Any) -> None:
    """One JSON object on one line, at once: more of them may follow."""
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def show_json(value: Any) -> None:
    """A message, or a list of them, as one JSON document."""
    values = [plain(item) for item in value] if isinstance(value, list) else plain(value)
    sys.stdout.buffer.write(orjson.dumps(values, option=orjson.OPT_INDENT_2) + b"\n")


def show_rows(rows: Sequence[R], columns: Mapping[str, Callable[[R], Any]], *, as_json: bool, empty: str) -> None:
    """Messages as a table, a column a function of the message; ``empty`` is said when there are none."""
    if as_json:
        show_json(list(rows))
    else:
        show_table(tuple(columns), [[column(row) for column in columns.values()] for row in rows], empty=empty)


def show_one(one: message.Message, *, as_json: bool) -> None:
    """One message, field by field."""
    if as_json:
        show_json(one)
    else:
        show_pairs(_lines("", plain(one)))


def show_done(text: str, *, as_json: bool) -> None:
    """That something was done and has no more to say."""
    if as_json:
        show_json({})
    else:
        say(text)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, empty: str) -> None:
    """A table; numbers stand to the right."""
    if rows:
        show(table(columns, rows))
    elif empty:
        say(empty)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Rows under the names of their columns; numbers stand to the right."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(columns):
        numbers = all(isinstance(row[place], int | float | None) for row in rows)
        made.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*map(cell, row))
    return made


def show_pairs(pairs: Iterable[tuple[str, Any]]) -> None:
    """Names and values, one line each; what has no value is left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", [], {}):
            grid.add_row(name, cell(value))
    show(grid)


def _lines(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value with its path, as an update mask names it."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _lines(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def say(text: str) -> None:
    """A text, line by line."""
    for line in text.split("\n"):
        show(Text(printable(line)))


def width() -> int:
    """Columns that there are."""
    return Console().width if sys.stdout.isatty() else WIDE


def show(what: RenderableType) -> None:
    """Coloured and as wide as the terminal; in a pipe plain, unwrapped and without blanks at the ends of lines."""
    if sys.stdout.isatty():
        Console(highlight=False).print(what)
        return
    console = Console(highlight=False, width=WIDE)
    with console.capture() as kept:
        console.print(what)
    sys.stdout.writelines(line.rstrip() + "\n" for line in kept.get().splitlines())


def cell(value: Any) -> Text:
    """A value as a person reads it; never as markup."""
    if isinstance(value, Text):
        return value
    if value is None or value == "" or value == []:
        return Text(NOTHING, style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float):
        return Text(f"{value:.4g}")
    if isinstance(value, str):
        return Text(printable(value))
    if isinstance(value, Iterable):
        return Text(", ".join(printable(str(item)) for item in value) or NOTHING)
    return Text(printable(str(value)))


def dollars(usd: float) -> str:
    """USD with enough digits to tell two small costs apart."""
    return "0" if usd == 0 else f"{usd:.6f}" if usd < 1 else f"{usd:.2f}"
