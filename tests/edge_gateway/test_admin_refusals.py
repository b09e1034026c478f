"""What the administration API does not take, and whom it does not serve."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from service_kit.settings import SettingsError
from tests.edge_gateway.admin_house import ADMIN_TOKEN, AdminHouse, opened

COMBO = {"id": "mine", "name": "mine", "strategy": "priority", "steps": ["p/p-model"]}


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[AdminHouse]:
    async with opened(tmp_path) as house:
        await house.service.add_target("p")
        yield house


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("/api/combos", {**COMBO, "colour": 1}, "colour"),
    ("/api/combos", {**COMBO, "account_tier": 1}, "account_tier"),
    ("/api/combos", {**COMBO, "models": []}, "models"),
    ("/api/combos", {"name": "x", "strategy": "priority"}, "steps"),
    ("/api/combos", {"name": "x", "strategy": "priority", "targets": ["p/p-model", 7]}, "targets[1]"),
    ("/api/combos", {"name": "x", "strategy": "priority", "models": ["no-provider"]}, "models[0].model"),
    ("/api/combos", {"name": "x", "strategy": "priority", "models": [{"model": "p/m", "wait": 1}]}, "steps[0].wait"),
    ("/api/combos", {**COMBO, "steps": [{"model": "p/p-model", "connectionId": "q"}]}, "steps[0].connectionId"),
    ("/api/combos", {**COMBO, "steps": [{"model": "p/p-model", "weight": -1}]}, "steps[0].weight"),
    ("/api/combos", {**COMBO, "steps": [{"kind": "combo-ref", "comboName": "none"}]}, "steps[0].comboName"),
    ("/api/combos", {**COMBO, "strategy": "fastest"}, "strategy"),
    ("/api/combos", {**COMBO, "name": 7}, "name"),
    ("/api/combos", {**COMBO, "name": "auto/x"}, "name"),
    ("/api/combos", {**COMBO, "config": {"maxRetrys": 1}}, "config.maxRetrys"),
    ("/api/combos", {**COMBO, "config": 5}, "config"),
    ("/api/connections", {"provider": "p", "accountTier": "gold"}, "accountTier"),
    ("/api/connections", {"provider": "p", "enabled": "yes"}, "enabled"),
    ("/api/connections", {"provider": "p", "baseUrl": "ftp://x"}, "baseUrl"),
    ("/api/connections", {"provider": "p", "credential": {"apiKey": "a", "reference": "env:B"}}, "credential"),
    ("/api/connections", {"provider": "p", "credential": {}}, "credential"),
    ("/api/connections", {"provider": "p", "models": "m"}, "models"),
    ("/api/keys", {"name": "k", "limits": {"requestsPerMinute": -1}}, "limits.requestsPerMinute"),
    ("/api/keys", {"name": "k", "limits": {"requestsPerMinute": True}}, "limits.requestsPerMinute"),
    ("/api/keys", {"name": "k", "limits": {"usdPerDay": "1"}}, "limits.usdPerDay"),
    ("/api/keys", {"name": "k", "expiresAt": "tomorrow"}, "expiresAt"),
    ("/api/keys", {"name": "k", "expiresAt": "2030-01-01T00:00:00"}, "expiresAt"),
    ("/api/keys", {"name": "k", "scopes": ["root"]}, "scopes[0]"),
    ("/api/keys", {}, "name"),
    ("/api/model-combo-mappings", {"pattern": "x", "combo": "none"}, "combo"),
    ("/api/providers", {"id": "x", "dialect": "morse"}, "dialect"),
    ("/api/explain", {}, "model"),
    ("/api/explain", {"model": "auto", "features": {"operation": "SING"}}, "features.operation"),
    ("/api/state/reset", {"kind": "lease", "key": "x"}, "kind"),
]


async def test_each_refusal_names_its_field_and_stores_nothing(admin: AdminHouse) -> None:
    for path, body, field in REFUSED:
        answer = await admin.send("POST", path, body)
        assert answer.status_code == 400 or (path == "/api/explain" and field == "model"), (path, body, answer.text)
        if answer.status_code == 400:
            error = answer.json()["error"]
            assert (error["param"], error["code"]) == (field, "invalid_value"), (body, error)
            assert error["message"].startswith(f"{field}: ")
            assert "allowed:" in error["message"]
    for path, member in (("/api/combos", "combos"), ("/api/keys", "keys"), ("/api/model-combo-mappings", "mappings")):
        assert (await admin.ok("GET", path))[member] == []
    assert len((await admin.ok("GET", "/api/connections"))["connections"]) == 1


async def test_bodies_that_are_no_object_or_too_large(admin: AdminHouse) -> None:
    for body in (b"", b"[]", b"{", b'{"name": "\xff"}', b'{"config":' + b"[" * 200 + b"]" * 200 + b"}"):
        assert (await admin.refused(400, "POST", "/api/combos", body))["param"] == "body"
    error = await admin.refused(413, "POST", "/api/combos", b'{"name": "' + b"x" * 70_000 + b'"}')
    assert error["code"] == "request_too_large"
    nested: Any = 1
    for _ in range(40):
        nested = {"a": nested}
    deep = await admin.refused(400, "POST", "/api/combos", json.dumps({**COMBO, "config": nested}).encode())
    assert deep["param"] == "config"


async def test_queries_that_are_not_known(admin: AdminHouse) -> None:
    for query, field in (
        ("page_size=-1", "page_size"),
        ("page_size=1001", "page_size"),
        ("page_size=x", "page_size"),
        ("pageSize=1", "pageSize"),
        ("provider=p&provider=q", "provider"),
    ):
        assert (await admin.refused(400, "GET", f"/api/connections?{query}"))["param"] == field
    assert (await admin.refused(400, "GET", "/api/models?connected_only=maybe"))["param"] == "connected_only"
    await admin.refused(400, "GET", "/api/settings?x=1")


async def test_what_changed_meanwhile_is_not_overwritten(admin: AdminHouse) -> None:
    made = await admin.send("POST", "/api/combos", COMBO)
    old = made.headers["etag"]
    assert (await admin.refused(409, "POST", "/api/combos", COMBO))["code"] == "already_exists"
    new = (await admin.send("PATCH", "/api/combos/mine", {"description": "x"}, if_match=old)).headers["etag"]
    assert new != old
    for method, body in (("PUT", COMBO), ("PATCH", {"description": "y"}), ("DELETE", None)):
        assert (await admin.refused(409, method, "/api/combos/mine", body, if_match=old))["code"] == "conflict"
    sent = {**COMBO, "etag": old.strip('"')}
    assert (await admin.refused(409, "PUT", "/api/combos/mine", sent))["param"] == "etag"
    assert (await admin.refused(400, "PUT", "/api/combos/mine", COMBO, if_match="bare"))["param"] == "If-Match"
    await admin.ok("PUT", "/api/combos/mine", COMBO, if_match="*")
    assert (await admin.refused(400, "PUT", "/api/combos/mine", {**COMBO, "id": "other"}))["param"] == "id"
    assert (await admin.refused(400, "PATCH", "/api/combos/mine", {}))["param"] == "body"
    await admin.ok("DELETE", "/api/combos/mine")


async def test_what_is_not_there(admin: AdminHouse) -> None:
    assert (await admin.refused(404, "GET", "/api/nothing"))["code"] == "unknown_url"
    assert (await admin.refused(404, "GET", "/api/combos/none"))["code"] == "not_found"
    assert (await admin.refused(404, "DELETE", "/api/keys/none"))["code"] == "not_found"
    answer = await admin.send("DELETE", "/api/combos")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    head = await admin.send("HEAD", "/api/combos")
    assert (head.status_code, head.content) == (200, b"")


async def test_only_keys_with_the_scope_administer(admin: AdminHouse) -> None:
    ops = (await admin.ok("POST", "/api/keys", {"name": "ops", "scopes": ["admin"]}))["secret"]
    user = (await admin.ok("POST", "/api/keys", {"name": "user"}, key=ops))["secret"]
    for method, path in (("GET", "/api/combos"), ("POST", "/api/keys"), ("GET", "/api/openapi.json")):
        assert (await admin.refused(403, method, path, {}, key=user))["code"] == "forbidden"
        assert (await admin.refused(401, method, path, {}))["code"] == "invalid_api_key"
        assert (await admin.refused(401, method, path, {}, key="sk-wrong"))["code"] == "invalid_api_key"
    await admin.refused(403, "PUT", "/v1/auto-combo/auto/overrides", {}, key=ops)
    await admin.ok("GET", "/api/combos", key=ops)


async def test_pages_of_other_sites_are_refused(admin: AdminHouse) -> None:
    for method in ("GET", "POST"):
        for given in ({"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example:20128"}):
            assert (await admin.refused(403, method, "/api/combos", COMBO, **given))["code"] == "forbidden"
    assert (await admin.ok("GET", "/api/combos"))["combos"] == []
    await admin.ok("GET", "/api/combos", origin="http://localhost:3000")


async def test_an_override_of_ones_own_needs_a_key(admin: AdminHouse) -> None:
    assert (await admin.refused(403, "PUT", "/v1/auto-combo/auto/overrides", {}))["code"] == "forbidden"


async def test_nobody_without_a_key_beyond_loopback(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="OMNIROUTE_EDGE_HOST"):
        async with opened(tmp_path, host="0.0.0.0"):
            pass


async def test_nobody_without_a_key_beyond_loopback_even_when_keys_go(tmp_path: Path) -> None:
    async with opened(tmp_path, host="0.0.0.0", first_key=True) as house:
        await house.refused(401, "GET", "/api/combos")


async def test_the_admin_token_is_the_gateways_own(tmp_path: Path) -> None:
    async with opened(tmp_path, edge_admin_token=ADMIN_TOKEN, admin_token=ADMIN_TOKEN) as house:
        assert (await house.ok("GET", "/api/combos"))["combos"] == []


async def test_without_the_admin_token_the_gateway_says_what_is_missing(tmp_path: Path) -> None:
    async with opened(tmp_path, admin_token=ADMIN_TOKEN) as house:
        error = await house.refused(403, "GET", "/api/combos")
        assert "OMNIROUTE_ADMIN_TOKEN" in error["message"]
        assert len((await house.ok("GET", "/api/combos/auto"))["channels"]) > 1
