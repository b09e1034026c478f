"""The page of surfaces against the routes, their rows and their tables."""

from __future__ import annotations

import re

import pytest

from edge_gateway.dialects import chat_fields, embeddings, messages_fields, responses_fields
from edge_gateway.dialects.fields import Allowed
from edge_gateway.problems import ANTHROPIC_TYPES, anthropic_type
from edge_gateway.surface import CHAT, EMBEDDINGS, MESSAGES, RESPONSES
from tests.docs import pages

PAGE = pages.DOCS / "surfaces.md"
SURFACES = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/messages": MESSAGES,
    "/v1/embeddings": EMBEDDINGS,
}
CHECKED: dict[str, Allowed] = {
    "/v1/chat/completions": chat_fields.ALLOWED,
    "/v1/responses": responses_fields.ALLOWED,
    "/v1/messages": messages_fields.ALLOWED,
    "/v1/embeddings": embeddings.ALLOWED,
}


def test_every_path_is_listed_with_its_method() -> None:
    source = (pages.ROOT / "edge_gateway" / "app.py").read_text()
    served = re.findall(r'Route\("(/v1/[^"]+)", .*methods=\["(\w+)"\]', source)
    rows = pages.by_first_code(pages.table(PAGE, "path", "method"), "path")
    assert {(path, row["method"]) for path, row in rows.items()} == {
        (path.replace(":path", ""), method) for path, method in served
    }


@pytest.mark.parametrize("path", SURFACES)
def test_the_ends_of_streams_are_those_of_the_page(path: str) -> None:
    row = pages.by_first_code(pages.table(PAGE, "path", "a stream ends with"), "path")[path]
    told = [marker.encode() for marker in pages.codes(row["a stream ends with"])]
    assert tuple(told) == SURFACES[path].end_markers


@pytest.mark.parametrize("path", CHECKED)
def test_every_checked_field_is_listed(path: str) -> None:
    row = pages.by_first_code(pages.table(PAGE, "path", "fields"), "path")[path]
    assert pages.codes(row["fields"]) == [place[0] for place in CHECKED[path] if len(place) == 1]


def test_every_type_of_anthropics_errors_is_listed() -> None:
    rows = {row["HTTP"]: row["Anthropic's type"] for row in pages.table(PAGE, "HTTP", "Anthropic's type")}
    others = {"other 4xx": anthropic_type(400), "other 5xx": anthropic_type(500)}
    assert rows == {str(status): kind for status, kind in ANTHROPIC_TYPES.items()} | others
