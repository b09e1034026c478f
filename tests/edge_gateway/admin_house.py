"""The real edge before a real decision service, both in the test's process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from edge_gateway.assembly import Edge
from edge_gateway.settings import Settings
from tests.decision_service.client import Client
from tests.decision_service.loopback import EDGE_TOKEN, serving
from tests.decision_service.process import free_ports

ADMIN_TOKEN = "admin-identity-of-the-test"


@dataclass
class AdminHouse:
    """``service`` speaks gRPC to the decision service, ``http`` JSON to the edge."""

    service: Client
    http: httpx.AsyncClient

    async def send(self, method: str, path: str, body: Any = None, key: str = "", **headers: str) -> httpx.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if key:
            given["authorization"] = f"Bearer {key}"
        content = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
        return await self.http.request(method, path, headers=given, **content)

    async def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The JSON of a success; None for 204."""
        answer = await self.send(method, path, body, **more)
        assert answer.status_code in (200, 201, 204), (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    async def refused(self, status: int, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        """The error of a refusal with this status."""
        answer = await self.send(method, path, body, **more)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        error: dict[str, Any] = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


@asynccontextmanager
async def opened(
    data_dir: Path,
    *,
    admin_token: str = "",
    edge_admin_token: str = "",
    host: str = "127.0.0.1",
    first_key: bool = False,
) -> AsyncIterator[AdminHouse]:
    """``first_key`` stores a key before the edge starts, which one beyond loopback needs."""
    (port,) = free_ports(1)
    async with serving(data_dir, decision_bind=f"127.0.0.1:{port}", admin_token=admin_token) as service:
        if first_key:
            await service.add_key("first", scopes=["inference"])
        settings = Settings(
            edge_host=host,
            edge_port=0,
            edge_token=EDGE_TOKEN,
            admin_token=edge_admin_token,
            decision_address=f"127.0.0.1:{port}",
            executor_address="127.0.0.1:9",
            edge_control_timeout_ms=10_000,
            edge_drain_ms=500,
            edge_max_body_bytes=64 * 1024,
        )
        async with (
            Edge(settings) as edge,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{edge.port}", timeout=20) as http,
        ):
            yield AdminHouse(service, http)
