"""A deliberate failover: a policy whose first step cannot work, stored for one request and removed after it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from time import perf_counter

import httpx

from tests.smoke.checks import FAILED, FRUGAL, OK, WORD, Checks, Row, no_text
from tests.smoke.gateway import Gateway, Heard, Refused

NOBODY = "http://127.0.0.1:1/v1"
MODEL = "nobody"
# While it is stored it is a candidate of `auto` as well: the last choice there, being dear, with a small window and few
# abilities.
UNWANTED = {
    "inputPrice": 1000,
    "outputPrice": 1000,
    "contextWindow": 1000,
    "capabilities": ["-tools", "-vision", "-audio", "-structured_output", "-reasoning"],
}


async def failover(checks: Checks, before: Sequence[Row]) -> list[Row]:
    """One request to a provider where nobody listens, then to those who answered ``before``."""
    able = list(dict.fromkeys(row.target for row in before if row.result == OK and row.headers.get("model")))
    if not able:
        return [Row("failover", "", FAILED, 0.0, "nobody answered who could take over")]
    name = f"smoke-{secrets.token_hex(4)}"

    async def asked() -> Heard:
        await _stored(checks.gateway, name, able)
        return await checks.gateway.ask(name, WORD, max_tokens=checks.max_tokens, extra_headers=FRUGAL)

    rows = []
    try:
        rows.append(await checks.tried("failover", name, asked, lambda heard: _not_failed_over(heard, name)))
    finally:
        rows += await _removed(checks.gateway, name)
    return rows


def _not_failed_over(heard: Heard, name: str) -> str:
    if heard.headers.get("provider") == name or int(heard.headers.get("attempts", "0")) < 2:
        return "answered at the first attempt, which was bound to fail"
    return no_text(heard)


async def _stored(gateway: Gateway, name: str, able: Sequence[str]) -> None:
    provider = {"id": name, "name": name, "providerClass": "local", "dialect": "openai", "baseUrl": NOBODY}
    connection = {"id": name, "provider": name, "models": [MODEL], "credential": {"none": {}}}
    combo = {"id": name, "name": name, "strategy": "priority", "steps": [f"{name}/{MODEL}", *able]}
    await gateway.operate("POST", "/api/providers", provider)
    await gateway.operate("PUT", f"/api/models/{name}/{MODEL}", UNWANTED)
    await gateway.operate("POST", "/api/connections", connection)
    await gateway.operate("POST", "/api/combos", combo)


async def _removed(gateway: Gateway, name: str) -> list[Row]:
    """A row for each thing that is still there."""
    rows = []
    for kind in ("combos", "connections", "providers"):
        started = perf_counter()
        try:
            await gateway.operate("DELETE", f"/api/{kind}/{name}")
        except Refused as refusal:
            if refusal.status not in (401, 403, 404):  # who may not remove did not store either
                rows.append(Row(f"remove from {kind}", name, FAILED, perf_counter() - started, str(refusal)))
        except httpx.HTTPError as error:
            note = str(error) or type(error).__name__
            rows.append(Row(f"remove from {kind}", name, FAILED, perf_counter() - started, note))
    return rows
