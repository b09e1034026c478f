"""What the process of a decision service says of Nadir where an operator can read it."""

from __future__ import annotations

from pathlib import Path

import httpx

from omniroute.decision.v1 import decision_pb2 as pb
from tests.decision_service.client import Client
from tests.decision_service.nadir.conftest import choosing
from tests.decision_service.process import decision_service, free_ports
from tests.executor.upstream import Upstream, answer


async def test_neither_keys_nor_prompts_are_logged(tmp_path: Path, player: Upstream) -> None:
    echo = answer(400, b'{"error": "hush-common or a private prompt is no good"}')
    player.scripts = [choosing("huge"), echo]
    port, metrics_port = free_ports(2)
    service = decision_service(
        tmp_path / "data",
        tmp_path / "log",
        port,
        metrics_port,
        OMNIROUTE_NADIR_BASE_URL=f"http://127.0.0.1:{player.port}",
        OMNIROUTE_NADIR_API_KEY="hush-common",
        OMNIROUTE_LOG_LEVEL="debug",
    )
    await service.start()
    client = Client(f"127.0.0.1:{port}")
    try:
        model = await client.add_target("small")
        own = {"apiKey": "hush-own", "baseUrl": f"http://localhost:{player.port}"}
        for name, nadir in (("common", {}), ("own", own)):
            await client.add_combo(
                name, [model], "auto", {"routerStrategy": "nadir", "nadir": {"timeoutMs": 300, **nadir}}
            )
        features = pb.RequestFeatures(last_user_text="a private prompt")
        reasons = [(await client.decide(name, features=features)).reason for name in ("common", "common", "own", "own")]
        sent = [request.headers["x-api-key"] for request in player.requests]
        async with httpx.AsyncClient() as http:
            metrics = (await http.get(f"http://127.0.0.1:{metrics_port}/metrics")).text
    finally:
        await client.close()
        await service.terminate()
    assert [reason.partition(";")[0] for reason in reasons] == [
        "NadirStrategy: fallback (choice outside the pool)",
        "NadirStrategy: fallback (skipped after a failure)",
        "NadirStrategy: fallback (http 400)",
        "NadirStrategy: fallback (skipped after a failure)",
    ]
    assert sent == ["hush-common", "hush-own"]
    for text in (service.said, metrics, *reasons):
        assert "hush" not in text
        assert "private" not in text
    assert service.said.count("nadir_failed") == 2
    assert 'omniroute_nadir_answers_total{result="skipped after a failure"} 2.0' in metrics
