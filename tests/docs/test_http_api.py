"""The page of the administration API against the table that it is served from."""

from __future__ import annotations

from edge_gateway.admin.asks import Operation, is_parameter
from edge_gateway.admin.descriptors import fields_of
from edge_gateway.admin.openapi import PATH, plain
from edge_gateway.admin.table import TABLE
from tests.docs import pages

PAGE = pages.DOCS / "http-api.md"


def test_every_request_is_on_the_page_with_its_parameters() -> None:
    rows = pages.table(PAGE, "request", "does", "query")
    listed = {pages.codes(row["request"])[0]: (row["does"], pages.codes(row["query"])) for row in rows}
    assert listed.pop(f"GET {PATH}")[1] == []
    assert listed == {f"{row.method} {plain(row.path)}": (row.summary, parameters(row)) for row in TABLE}
    assert len(rows) == len(TABLE) + 1


def parameters(row: Operation) -> list[str]:
    return [field.name for field in fields_of(row.query) if is_parameter(field)] if row.query else []
