"""What can be done to every kind of thing: list, create, get, update, remove."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from google.protobuf.message import Message

from edge_gateway.admin import combo_body
from edge_gateway.admin.asks import Act, Answer, Ask, read_query
from edge_gateway.admin.descriptors import fields_of
from edge_gateway.admin.reading import read
from edge_gateway.admin.resource import Resource
from edge_gateway.admin.rpc import Remote
from edge_gateway.admin.words import is_read_only
from edge_gateway.admin.writing import write
from edge_gateway.json_body import Json, shape
from service_kit.errors import invalid

# A body that leaves it out keeps the stored one, even where everything is replaced: nobody can read it back.
KEPT = frozenset({"credential"})


def list_of(kind: Resource) -> Act:
    called = kind.method("List")

    async def act(ask: Ask, remote: Remote) -> Answer:
        request = called.request()
        read_query(request, ask.query)
        return Answer(write(await remote.call(called, request)))

    return act


def create_of(kind: Resource) -> Act:
    called = kind.method("Create")

    async def act(ask: Ask, remote: Remote) -> Answer:
        request = called.request()
        member = getattr(request, kind.member)
        member.SetInParent()
        read(member, _body(kind, ask.body, whole=True))
        answer = await remote.call(called, request, _renamed(kind, ask.body))
        stored = getattr(answer, kind.member)
        place = "/".join(quote(getattr(stored, name)) for name in kind.key)
        return _single(kind, answer, 201, {"location": f"{kind.path}/{place}"})

    return act


def get_of(kind: Resource) -> Act:
    called = kind.method("Get")

    async def act(ask: Ask, remote: Remote) -> Answer:
        return _single(kind, await remote.call(called, called.request(**_key(kind, ask))))

    return act


def update_of(kind: Resource, *, whole: bool) -> Act:
    """``whole``: what is not given is put back to what it is when unset; else it stays."""
    called = kind.method("Update")

    async def act(ask: Ask, remote: Remote) -> Answer:
        request: Any = called.request()
        member = getattr(request, kind.member)
        body = _body(kind, ask.body, whole=whole)
        read(member, body)
        for name, value in _key(kind, ask).items():
            _agree(member, name, value)
        if ask.etag:
            member.etag = ask.etag
        if "update_mask" in request.DESCRIPTOR.fields_by_name:
            request.update_mask.paths.extend(_mask(kind, member, body, whole=whole))
        return _single(kind, await remote.call(called, request, _renamed(kind, ask.body)))

    return act


def remove_of(kind: Resource) -> Act:
    called = kind.method("Delete")

    async def act(ask: Ask, remote: Remote) -> Answer:
        await remote.call(called, called.request(**_key(kind, ask), etag=ask.etag))
        return Answer(None, 204)

    return act


def _key(kind: Resource, ask: Ask) -> dict[str, str]:
    return {name: ask.path[name] for name in kind.key}


def _body(kind: Resource, body: Json, *, whole: bool) -> Json:
    return combo_body.with_steps(body, whole=whole) if kind.name == "Combo" else body


def _renamed(kind: Resource, body: Json) -> dict[str, str]:
    """What the refusal of a combo calls its steps."""
    return {"steps": combo_body.sent_as(body) or "steps"} if kind.name == "Combo" else {}


def _agree(member: Any, name: str, value: str) -> None:
    """The body may repeat what the path says, and nothing else."""
    given = getattr(member, name)
    if given not in ("", value):
        raise invalid(member.DESCRIPTOR.fields_by_name[name].json_name, shape(given), "what the path says, or nothing")
    setattr(member, name, value)


def _mask(kind: Resource, member: Message, body: Json, *, whole: bool) -> list[str]:
    """Fields to change. Raises INVALID_FIELD for none: an empty mask would mean all of them."""
    fixed = {*kind.key, "etag"}
    found = [
        field.name
        for field in fields_of(member)
        if field.name not in fixed and not is_read_only(field) and (field.json_name in body or whole)
    ]
    mask = [name for name in found if name not in KEPT or member.HasField(name)]
    if not mask:
        raise invalid("body", "nothing to change", "at least one field of what is changed")
    return mask


def _single(kind: Resource, answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """The thing itself, with what an answer tells beside it, such as a warning or a key's text."""
    stored = getattr(answer, kind.member)
    beside = write(answer)
    beside.pop(answer.DESCRIPTOR.fields_by_name[kind.member].json_name, None)
    return Answer(write(stored) | beside, status, tag_of(stored) | (headers or {}))


def tag_of(stored: Any) -> dict[str, str]:
    """The ETag header of what was stored; none for what never was."""
    return {"etag": f'"{stored.etag}"'} if stored.etag else {}
