"""Every example of the OpenAPI document, sent as it stands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jsonschema
import pytest

from edge_gateway.admin.examples import BODIES
from edge_gateway.admin.openapi import document, names_in, plain
from edge_gateway.admin.table import TABLE
from tests.edge_gateway.admin_house import AdminHouse, opened


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[AdminHouse]:
    async with opened(tmp_path) as house:
        yield house


async def test_every_example_of_the_document_runs(admin: AdminHouse) -> None:
    described = await admin.ok("GET", "/api/openapi.json")
    assert described == document()
    key = ""
    last = [row for row in TABLE if row.method == "DELETE"]
    for row in [*(row for row in TABLE if row.method != "DELETE"), *reversed(last)]:
        if row.path == "/api/state":
            await a_cooldown(admin)
        found = described["paths"][plain(row.path)][row.method.lower()]
        path = plain(row.path)
        for name in names_in(path):
            path = path.replace(f"{{{name}}}", await value_at(admin, found, name, key))
        body = found["requestBody"]["content"]["application/json"]["example"] if "requestBody" in found else None
        query = {
            each["name"]: each["example"] for each in found["parameters"] if each["in"] == "query" and "example" in each
        }
        answer = await admin.send(row.method, f"{path}?{urlencode(query)}", body, key=key)
        assert answer.status_code == row.status, (row.method, path, answer.text)
        check(described, found["responses"][str(row.status)], answer.json() if answer.content else None)
        key = answer.json().get("secret", key) if answer.content else key
        if query:  # what it removed is removed once more, by its path
            await admin.ok("POST", path, BODIES["ModelMapping"], key=key)


async def value_at(admin: AdminHouse, operation: dict[str, Any], name: str, key: str) -> str:
    """The example of a path's parameter; a decision's id is not known beforehand."""
    if name == "decision_id":
        decision = await admin.service.decide("example/small")
        assert (await admin.ok("GET", "/api/decisions", key=key))["records"]
        return decision.decision_id
    examples: dict[str, str] = {each["name"]: each["example"] for each in operation["parameters"] if "example" in each}
    return examples[name]


async def a_cooldown(admin: AdminHouse) -> None:
    await admin.service.attempt("example/small", "RATE_LIMITED", retry_after_ms=60_000)


def check(described: dict[str, Any], response: dict[str, Any], body: Any) -> None:
    """The answer has the form that the document says."""
    if "content" not in response:
        assert body is None
        return
    schema = response["content"]["application/json"]["schema"]
    jsonschema.validate(body, {**schema, "components": described["components"]})


def test_bodies_have_the_form_that_the_document_says() -> None:
    described = document()
    for path in described["paths"].values():
        for operation in path.values():
            if "requestBody" in operation:
                media = operation["requestBody"]["content"]["application/json"]
                jsonschema.validate(media["example"], {**media["schema"], "components": described["components"]})


def test_every_reference_of_the_document_leads_somewhere() -> None:
    described = document()
    names = set(described["components"]["schemas"])
    used = set(references(described))
    assert used <= names
    assert names - used == set()


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        here = [value["$ref"].rpartition("/")[2]] if isinstance(value.get("$ref"), str) else []
        return here + [name for each in value.values() for name in references(each)]
    return [name for each in value for name in references(each)] if isinstance(value, list) else []


def test_operations_are_named_once() -> None:
    operations = [each["operationId"] for path in document()["paths"].values() for each in path.values()]
    assert len(set(operations)) == len(operations)
