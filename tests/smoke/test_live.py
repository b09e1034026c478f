"""smoke-live, with providers of the internet replaced behind a proxy: their names, keys and TLS are the real ones."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from decision_service.catalog import Catalog
from tests.decision_service.process import ROOT
from tests.executor.certificate import certificate
from tests.executor.upstream import Upstream
from tests.smoke.conftest import Run
from tests.smoke.hidden import Hidden
from tests.smoke.stand_in import proxy, with_key

KEY = "Zq8-the-key-of-this-test"
OPENAI, ANTHROPIC = "api.openai.com", "api.anthropic.com"


@dataclass(frozen=True)
class Vendors:
    """The stand-ins, and the environment in which providers are reached through them."""

    openai: Upstream
    environ: dict[str, str]


@pytest.fixture
async def vendors(tmp_path: Path) -> AsyncIterator[Vendors]:
    context, authority = certificate(tmp_path, OPENAI, ANTHROPIC)
    async with AsyncExitStack() as parts:
        ports = {}
        for host in (OPENAI, ANTHROPIC):
            upstream = Upstream(with_key(KEY))
            upstream.tls = context
            parts.push_async_callback((await upstream.start()).stop)
            ports[host] = upstream
        address = await parts.enter_async_context(proxy({host: each.port for host, each in ports.items()}))
        way = {"OMNIROUTE_UPSTREAM_PROXY": address, "OMNIROUTE_UPSTREAM_CA": authority}
        yield Vendors(ports[OPENAI], way)


def default_of(provider: str) -> str:
    known = Catalog().provider(provider)
    assert known is not None
    return known.models[0]


def test_without_a_key_it_is_one_line() -> None:
    done = subprocess.run(
        ["make", "--old-file=.venv/.dev-ready", "smoke-live"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    [line] = done.stdout.splitlines()
    assert line.startswith("smoke-live: nothing is checked: no provider key")


async def test_a_provider_whose_key_is_there_passes(run: Run, vendors: Vendors) -> None:
    # What is set for services that last does not count here: with this port nothing would start.
    environ = vendors.environ | {"OPENAI_API_KEY": KEY, "OMNIROUTE_EDGE_PORT": "1", "OMNIROUTE_DEMO": "always"}
    printed = await run(["live"], environ)
    assert printed.status == 0, printed.text
    model = f"openai/{default_of('openai')}"
    asked = [name[1] for name in printed.rows if name[0] == "plain"]
    assert asked == [model, "auto", "auto/fast", "auto/cheap"]
    assert {check for check, of in printed.rows if of == model} == {"plain", "stream", "tools"}
    [failover] = [row for (check, _), row in printed.rows.items() if check == "failover"]
    assert (failover["provider"], failover["attempts"]) == ("openai", "2")
    assert {row["result"] for row in printed.rows.values()} == {"ok"}
    assert printed.rows["stream", "auto"]["first token"] != "-"
    assert KEY not in printed.text
    assert all(received.headers["authorization"] == f"Bearer {KEY}" for received in vendors.openai.requests)
    assert all(received.body["max_completion_tokens"] == 256 for received in vendors.openai.requests)


async def test_a_provider_that_refuses_the_key_fails_in_its_rows_alone(run: Run, vendors: Vendors) -> None:
    wrong = "Zq8-another-key-of-this-test"
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": wrong}
    printed = await run(["live", "--model", "anthropic/claude-of-mine", "--max-tokens", "7"], vendors.environ | keys)
    assert printed.status == 1
    failed = {name for name, result in printed.results.items() if result == "FAILED"}
    assert failed == {(check, "anthropic/claude-of-mine") for check in ("plain", "stream", "tools")}
    assert "502 upstream_auth_failed" in printed.rows["plain", "anthropic/claude-of-mine"]["note"]
    assert "3 failed" in printed.text
    assert KEY not in printed.text
    assert wrong not in printed.text
    assert {received.body["max_completion_tokens"] for received in vendors.openai.requests} == {7}


async def test_services_that_do_not_start_are_one_clear_failure(run: Run) -> None:
    printed = await run(["live"], {"OPENAI_API_KEY": KEY, "OMNIROUTE_UPSTREAM_CALLS_PER_HOST": KEY})
    assert printed.status == 1
    assert printed.text.startswith("smoke-live: failed: executor refuses its settings")
    assert "OMNIROUTE_UPSTREAM_CALLS_PER_HOST: got '***'" in printed.text


def test_whichever_variable_holds_a_key_it_is_hidden() -> None:
    catalog = Catalog()
    known = [provider for name in catalog.ids if (provider := catalog.provider(name))]
    read = catalog.by_variable(name for provider in known for name in provider.env_names).values()
    assert len(read) > 50
    for variable in (*read, "OMNIROUTE_API_KEY"):
        assert Hidden({variable: KEY}).text(f"[{KEY}]") == "[***]", variable
