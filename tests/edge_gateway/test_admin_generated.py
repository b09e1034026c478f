"""Requests made up from the OpenAPI document, good and bad: none breaks the service or gets an undocumented answer."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from tests.edge_gateway.admin_house import opened

pytestmark = [pytest.mark.full, pytest.mark.timeout(120)]

SENT_S = 25
LIMIT_S = 60.0
TOOL = Path(sys.executable).parent / "schemathesis"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
)


async def test_no_made_up_request_breaks_it(tmp_path: Path) -> None:
    if not TOOL.exists() or shutil.which(TOOL) is None:
        pytest.skip("schemathesis is not installed")
    async with opened(tmp_path) as house:
        await house.service.add_target("p")
        made = await house.ok("POST", "/api/keys", {"id": "ops", "name": "ops", "scopes": ["admin", "inference"]})
        key = made["secret"]
        child = await asyncio.create_subprocess_exec(
            TOOL,
            "run",
            f"{house.http.base_url}/api/openapi.json".replace("//api", "/api"),
            f"--header=Authorization: Bearer {key}",
            f"--checks={','.join(CHECKS)}",
            "--phases=examples,coverage,fuzzing",
            f"--max-time={SENT_S}",
            "--max-examples=20",
            "--seed=1",
            "--exclude-path=/api/keys/{id}",
            "--no-color",
            "--warnings=off",
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(LIMIT_S):
                said, _ = await child.communicate()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        assert child.returncode == 0, said.decode()[-8_000:]
        await house.ok("GET", "/api/combos", key=key)
