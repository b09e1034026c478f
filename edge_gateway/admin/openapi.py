"""The OpenAPI document, made of the table and of the contract's descriptors."""

from __future__ import annotations

import re

from edge_gateway.admin import schemas
from edge_gateway.admin.asks import Operation, is_parameter
from edge_gateway.admin.descriptors import fields_of
from edge_gateway.admin.table import TABLE
from edge_gateway.json_body import Json

PATH = "/api/openapi.json"
ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "string"},
            },
        }
    },
}
IF_MATCH: Json = {
    "name": "If-Match",
    "in": "header",
    "description": 'The ETag that must be the stored one, quoted; "*" or none: any',
    "schema": {"type": "string"},
}
TAG_HEADER: Json = {"ETag": {"description": "Changes at every change", "schema": {"type": "string"}}}


def document() -> Json:
    """The whole document."""
    paths: dict[str, Json] = {}
    for row in TABLE:
        paths.setdefault(plain(row.path), {})[row.method.lower()] = _operation(row)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Administration of the gateway", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {
                "Error": ERROR,
                **schemas.answers(row.gives for row in TABLE if row.gives),
                **schemas.inputs(row.takes for row in TABLE if row.takes),
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def plain(path: str) -> str:
    """A route's path without the converters of its parameters."""
    return re.sub(r":\w+}", "}", path)


def names_in(path: str) -> list[str]:
    return re.findall(r"{(\w+)", path)


def _operation(row: Operation) -> Json:
    found: Json = {
        "operationId": f"{row.method.lower()}{''.join(part.title() for part in re.findall(r'[a-z]+', row.path))}",
        "summary": row.summary,
        "tags": [row.path.split("/")[2]],
        "parameters": _parameters(row),
        "responses": {str(row.status): _response(row), "default": _content("Error", "A refusal")},
    }
    if row.takes:
        found["requestBody"] = {"required": True, **_content(schemas.input_name(row.takes), "", row.example)}
    return found


def _parameters(row: Operation) -> list[Json]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "example": row.at[name]}
        for name in names_in(row.path)
    ]
    fields = fields_of(row.query) if row.query else ()
    in_query = [
        {"name": field.name, "in": "query", "schema": schemas.parameter(field)}
        | ({"example": row.at[field.name]} if field.name in row.at else {})
        for field in fields
        if is_parameter(field)
    ]
    return [*in_path, *in_query, *([IF_MATCH] if row.matches else [])]


def _response(row: Operation) -> Json:
    if not row.gives:
        return {"description": "Done"}
    found = _content(schemas.short(row.gives), row.summary)
    return found | ({"headers": TAG_HEADER} if row.matches or row.status == 201 else {})


def _content(schema: str, description: str, example: Json | None = None) -> Json:
    media: Json = {"schema": {"$ref": f"#/components/schemas/{schema}"}}
    if example is not None:
        media["example"] = example
    return ({"description": description} if description else {}) | {"content": {"application/json": media}}
