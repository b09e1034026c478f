"""What orchestrators ask."""

from __future__ import annotations

from typing import Any

from edge_gateway.probes import FRESH_S, Probes
from tests.edge_gateway.conftest import House, Open, chat

GOOD = {"decision": "ok", "executor": "ok", "identity": "ok"}


async def test_ready_and_alive(house: House) -> None:
    answer = await house.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "checks": GOOD})
    assert (await house.get("/healthz")).json() == {"status": "ok"}


async def test_not_ready_says_why(open_house: Open) -> None:
    house = await open_house(executor_address="127.0.0.1:1")
    answer = await house.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "checks": GOOD | {"executor": "unreachable"}}
    assert answer.elapsed.total_seconds() < 1.0
    assert (await house.get("/healthz")).status_code == 200


async def test_wrong_identity_is_no_client_fault(open_house: Open) -> None:
    house = await open_house(edge_token="another")
    answer = await house.get("/readyz")
    assert answer.status_code == 503
    assert "OMNIROUTE_EDGE_TOKEN" in answer.json()["checks"]["identity"]
    answer = await house.post(chat(), {"authorization": "Bearer sk"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")


async def test_readiness_is_asked_once_a_second() -> None:
    now, calls, health = 100.0, 0, {"decision": "ok"}

    async def asked() -> dict[str, str]:
        nonlocal calls
        calls += 1
        return dict(health)

    probes = Probes(asked, lambda: now)
    request: Any = None
    assert (await probes.ready(request)).status_code == 200
    health["decision"] = "not_serving"
    assert (await probes.ready(request)).status_code == 200
    now += FRESH_S
    assert (await probes.ready(request)).status_code == 503
    assert calls == 2
    probes.draining = True
    assert b"draining" in (await probes.ready(request)).body


async def test_metrics(house: House) -> None:
    await house.post(chat())
    answer = await house.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'omniroute_edge_requests_total{route="/v1/chat/completions",status="200"}' in answer.text
    assert "omniroute_edge_decide_seconds_count" in answer.text
