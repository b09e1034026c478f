"""The life of what is stored, over HTTP, before a real decision service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.edge_gateway.admin_house import AdminHouse, opened

SECRET = "sk-a-provider-secret-0123456789"


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[AdminHouse]:
    async with opened(tmp_path) as house:
        await house.service.add_target("p", input_price=1.0, output_price=2.0, context_window=10_000)
        await house.service.add_target("q")
        yield house


async def test_a_combo_lives(admin: AdminHouse) -> None:
    body = {"name": "mine", "strategy": "priority", "models": ["p/p-model", {"model": "q/q-model", "weight": 2}]}
    made = await admin.send("POST", "/api/combos", body)
    assert made.status_code == 201
    stored = made.json()
    place = made.headers["location"]
    assert place == f"/api/combos/{stored['id']}"
    assert made.headers["etag"] == f'"{stored["etag"]}"'
    assert [(step["kind"], step["model"]) for step in stored["steps"]] == [
        ("model", "p/p-model"),
        ("model", "q/q-model"),
    ]
    assert stored["steps"][1]["weight"] == 2
    assert "models" not in stored
    assert "warning" not in stored
    assert {"key": "maxRetries", "layer": "default"}.items() <= next(
        each for each in stored["effective"] if each["key"] == "maxRetries"
    ).items()

    assert await admin.ok("PUT", place, stored) | {"updatedAt": "", "etag": ""} | {"version": 0} == stored | {
        "updatedAt": "",
        "etag": "",
        "version": 0,
    }
    changed = await admin.ok("PATCH", place, {"config": {"maxRetries": 2}})
    assert (changed["name"], len(changed["steps"]), changed["config"]) == ("mine", 2, {"maxRetries": 2})
    assert {"key": "maxRetries", "value": 2, "layer": "combo"} in changed["effective"]
    assert await admin.ok("GET", place) == changed
    assert (await admin.ok("GET", "/api/combos"))["combos"] == [changed]
    assert await admin.ok("DELETE", place) is None
    assert (await admin.refused(404, "GET", place))["code"] == "not_found"


async def test_a_step_may_be_a_combo(admin: AdminHouse) -> None:
    await admin.ok(
        "POST", "/api/combos", {"id": "inner", "name": "inner", "strategy": "random", "targets": ["p/p-model"]}
    )
    steps = [{"kind": "combo-ref", "comboName": "inner", "id": "first"}]
    outer = await admin.ok("POST", "/api/combos", {"name": "outer", "strategy": "priority", "steps": steps})
    assert outer["steps"][0]["kind"] == "combo-ref"
    assert (outer["steps"][0]["comboName"], outer["steps"][0]["stepId"]) == ("inner", "first")
    assert (await admin.refused(409, "DELETE", "/api/combos/inner"))["code"] == "conflict"


async def test_a_combo_that_shadows_a_model_is_stored_with_a_warning(admin: AdminHouse) -> None:
    body = {"name": "p-model", "strategy": "priority", "steps": ["q/q-model"]}
    warning = (await admin.ok("POST", "/api/combos", body))["warning"]
    assert (warning["code"], warning["modelId"], warning["providerId"]) == ("COMBO_NAME_SHADOWS_MODEL", "p-model", "p")


async def test_channels_are_listed_and_nothing_can_be_stored_among_them(admin: AdminHouse) -> None:
    channels = {each["id"]: each for each in (await admin.ok("GET", "/api/combos/auto"))["channels"]}
    assert set(channels["auto"]["candidates"]) == {"p/p-model@p-1", "q/q-model@q-1"}
    assert channels["auto"]["contextLength"] == 10_000
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = await admin.send(method, "/api/combos/auto", {"name": "x"})
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
        assert answer.json()["error"]["code"] == "method_not_allowed"
    error = await admin.refused(
        400, "POST", "/api/combos", {"id": "auto", "name": "x", "strategy": "auto", "steps": []}
    )
    assert error["param"] == "id"


async def test_a_mapping_lives(admin: AdminHouse) -> None:
    await admin.ok("POST", "/api/combos", {"name": "mine", "strategy": "priority", "steps": ["p/p-model"]})
    made = await admin.ok("POST", "/api/model-combo-mappings", {"pattern": "gpt-*", "combo": "mine", "priority": -3})
    place = f"/api/model-combo-mappings/{made['id']}"
    assert (await admin.ok("GET", "/api/model-combo-mappings"))["mappings"] == [made]
    assert (await admin.ok("PATCH", place, {"priority": 4}))["priority"] == 4
    assert (await admin.ok("PUT", place, {"pattern": "gpt-*", "combo": "mine"}))["priority"] == 0
    assert (await admin.ok("POST", "/api/explain", {"model": "gpt-x"}))["decision"]["combo"] == "mine"
    await admin.ok("DELETE", place)
    assert (await admin.ok("GET", "/api/model-combo-mappings"))["mappings"] == []
    await admin.ok("POST", "/api/model-combo-mappings", {"id": "again", "pattern": "gpt-*", "combo": "mine"})
    assert await admin.ok("DELETE", "/api/model-combo-mappings?id=again") is None
    await admin.refused(404, "DELETE", "/api/model-combo-mappings?id=again")


async def test_a_connection_lives_and_its_secret_is_never_told(admin: AdminHouse) -> None:
    body = {"id": "second", "provider": "p", "credential": {"apiKey": SECRET}, "accountTier": "ultra"}
    texts = [(await admin.send("POST", "/api/connections", body)).text]
    stored = await admin.ok("GET", "/api/connections/second")
    assert stored["accountTier"] == "ultra"
    assert (stored["credentialView"]["kind"], stored["credentialView"]["usable"]) == ("api_key", True)
    mark = stored["credentialView"]["fingerprint"]
    for method, path, sent in (
        ("GET", "/api/connections/second", None),
        ("GET", "/api/connections?provider=p", None),
        ("PUT", "/api/connections/second", stored),
        ("PATCH", "/api/connections/second", {"label": "The second"}),
    ):
        answer = await admin.send(method, path, sent)
        assert answer.status_code == 200, answer.text
        texts.append(answer.text)
    assert not any(SECRET in text or '"credential"' in text for text in texts)
    assert (await admin.ok("GET", "/api/connections/second"))["credentialView"]["fingerprint"] == mark
    renewed = await admin.ok("PATCH", "/api/connections/second", {"credential": {"reference": "env:SOME_NAME"}})
    assert renewed["credentialView"]["reference"] == "env:SOME_NAME"
    listed = (await admin.ok("GET", "/api/connections?provider=p"))["connections"]
    assert {each["id"] for each in listed} == {"p-1", "second"}
    await admin.ok("DELETE", "/api/connections/second")
    await admin.refused(404, "GET", "/api/connections/second")


async def test_a_refused_secret_is_not_repeated(admin: AdminHouse) -> None:
    bad = SECRET + "\n"
    answer = await admin.send("POST", "/api/connections", {"provider": "p", "credential": {"apiKey": bad}})
    assert answer.status_code == 400
    assert SECRET not in answer.text
    assert answer.json()["error"]["param"] == "credential.apiKey"


async def test_a_key_is_told_once(admin: AdminHouse) -> None:
    made = await admin.send("POST", "/api/keys", {"name": "ops", "scopes": ["admin", "inference"]})
    key = made.json()["secret"]
    assert made.headers["cache-control"] == "no-store"
    place = made.headers["location"]
    changed = await admin.send("PATCH", place, {"limits": {"tokensPerMinute": 9}}, key=key)
    assert changed.json()["limits"]["tokensPerMinute"] == 9
    for text in (changed.text, (await admin.send("GET", "/api/keys", key=key)).text):
        assert key not in text
        assert "secret" not in text
    expires = await admin.ok("PATCH", place, {"expiresAt": "2090-01-31T12:00:00+01:00"}, key=key)
    assert expires["expiresAt"] == "2090-01-31T11:00:00Z"
    assert "expiresAt" not in await admin.ok("PATCH", place, {"expiresAt": None}, key=key)
    await admin.ok("DELETE", place, key=key)
    assert (await admin.ok("GET", "/api/keys"))["keys"] == []


async def test_settings_are_changed_one_by_one(admin: AdminHouse) -> None:
    assert "etag" not in (await admin.send("GET", "/api/settings")).headers
    first = await admin.send("PATCH", "/api/settings", {"values": {"comboRefMaxDepth": 1}})
    changed = await admin.ok(
        "PATCH", "/api/settings", {"values": {"comboRefMaxDepth": 2}}, if_match=first.headers["etag"]
    )
    assert changed["values"] == {"comboRefMaxDepth": 2}
    assert {"key": "comboRefMaxDepth", "value": 2, "layer": "settings"} in changed["effective"]
    error = await admin.refused(
        409, "PATCH", "/api/settings", {"values": {"comboRefMaxDepth": 3}}, if_match=first.headers["etag"]
    )
    assert error["code"] == "conflict"
    assert (await admin.ok("PATCH", "/api/settings", {"values": {"comboRefMaxDepth": None}}))["values"] == {}
    assert "nonsense" in (await admin.refused(400, "PATCH", "/api/settings", {"values": {"nonsense": 1}}))["message"]


async def test_overrides_of_any_key_and_of_ones_own(admin: AdminHouse) -> None:
    ops = await admin.ok("POST", "/api/keys", {"id": "ops", "name": "ops", "scopes": ["admin"]})
    user = await admin.ok("POST", "/api/keys", {"id": "user", "name": "user"}, key=ops["secret"])
    own = {"candidates": [{"candidate": "p/p-model@p-1", "excluded": True}]}
    mine = await admin.ok("PUT", "/v1/auto-combo/auto/coding/overrides", own, key=user["secret"])
    assert (mine["apiKeyId"], mine["candidates"][0]["excluded"]) == ("user", True)
    views = await admin.ok("GET", "/v1/auto-combo/coding/candidates", key=user["secret"])
    assert {each["candidate"]: each["excluded"] for each in views["candidates"]} == {
        "p/p-model@p-1": True,
        "q/q-model@q-1": False,
    }
    stolen = {**own, "apiKeyId": "ops"}
    error = await admin.refused(400, "PUT", "/v1/auto-combo/coding/overrides", stolen, key=user["secret"])
    assert error["param"] == "apiKeyId"
    await admin.refused(403, "GET", "/api/overrides/user/coding", key=user["secret"])
    listed = await admin.ok("GET", "/api/overrides?api_key_id=user", key=ops["secret"])
    assert [each["channel"] for each in listed["overrides"]] == [mine["channel"]]
    seen = await admin.ok("GET", f"/api/overrides/user/{mine['channel']}", key=ops["secret"])
    assert seen == mine == await admin.ok("GET", "/v1/auto-combo/coding/overrides", key=user["secret"])
    await admin.ok("DELETE", "/v1/auto-combo/coding/overrides", key=user["secret"])
    await admin.refused(404, "GET", "/api/overrides/user/coding", key=ops["secret"])


async def test_what_is_known_of_models_can_be_overridden(admin: AdminHouse) -> None:
    facts = {"inputPrice": 0.5, "capabilities": ["tools", "-vision"], "fitness": {"coding": 0.9}}
    await admin.ok("PUT", "/api/models/p/p-model", facts)
    await admin.ok("PUT", "/api/models/p/family%2Fwith@signs", {"name": "Odd"})
    known = await admin.ok("GET", "/api/models/p/p-model")
    assert (known["inputPrice"], known["fitness"], known["source"]) == (0.5, {"coding": 0.9}, "operator")
    assert "contextWindow" not in known
    assert "inputPrice" not in await admin.ok("PATCH", "/api/models/p/p-model", {"inputPrice": None})
    assert (await admin.ok("GET", "/api/models/p/family/with@signs"))["name"] == "Odd"
    models = (await admin.ok("GET", "/api/models?provider=p&connected_only=true"))["models"]
    assert {each["model"] for each in models} >= {"p-model"}


async def test_a_provider_lives(admin: AdminHouse) -> None:
    body: dict[str, Any] = {"id": "own", "dialect": "openai", "providerClass": "local", "baseUrl": "http://127.0.0.1:9"}
    await admin.ok("POST", "/api/providers", body)
    assert (await admin.refused(409, "POST", "/api/providers", body))["code"] == "already_exists"
    assert (await admin.ok("PATCH", "/api/providers/own", {"enabled": False}))["enabled"] is False
    custom = (await admin.ok("GET", "/api/providers?custom_only=true"))["providers"]
    assert {each["id"] for each in custom} == {"own", "p", "q"}
    await admin.ok("DELETE", "/api/providers/own")


async def test_decisions_and_state(admin: AdminHouse) -> None:
    decision = await admin.service.attempt("p/p-model", "RATE_LIMITED", retry_after_ms=60_000)
    records = (await admin.ok("GET", "/api/decisions?page_size=1"))["records"]
    assert [each["decision"]["decisionId"] for each in records] == [decision.decision_id]
    record = await admin.ok("GET", f"/api/decisions/{decision.decision_id}")
    assert record["outcomes"][0]["outcomeClass"] == "RATE_LIMITED"
    assert record["decision"]["plan"]["shape"] == "SINGLE"
    states = (await admin.ok("GET", "/api/state?kind=cooldown&abnormal_only=true"))["states"]
    assert [(each["key"], each["state"]) for each in states] == [("p/p-1", "RESTING")]
    after = await admin.ok("POST", "/api/state/reset", {"kind": "cooldown", "key": "p/p-1"})
    assert after["state"] == "CLEAR"
    assert (await admin.refused(404, "POST", "/api/state/reset", {"kind": "cooldown", "key": "x"}))["param"] == "key"
    refusal = await admin.ok("POST", "/api/explain?include_scenario=true", {"model": "nothing-like-it"})
    assert refusal["error"]["reason"] == "MODEL_NOT_FOUND"
    explained = await admin.ok("POST", "/api/explain", {"model": "auto", "seed": 2**64 - 1})
    assert (explained["decision"]["seed"], len(explained["decision"]["trace"]["candidates"])) == (2**64 - 1, 2)


async def test_pages_follow_each_other(admin: AdminHouse) -> None:
    names, token = [], ""
    for _ in range(3):
        page = await admin.ok("GET", f"/api/connections?page_size=1&page_token={token}")
        names += [each["id"] for each in page["connections"]]
        token = page["nextPageToken"]
        if not token:
            break
    assert names == ["p-1", "q-1"]
    assert (await admin.refused(400, "GET", "/api/connections?page_token=forged"))["param"] == "page_token"
