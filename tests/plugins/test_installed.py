"""The example plug-in, installed by pip into a directory of its own and used by a decision service's process."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from decision_service.plugins import GROUP, Choice, PoolMember, SelectContext, register_strategy, registration
from omniroute.decision.v1 import decision_pb2 as pb
from tests.decision_service.client import LIMIT_S, Client, refused
from tests.decision_service.loopback import serving
from tests.decision_service.process import ROOT, Service, decision_service, free_ports

EXAMPLE = Path(__file__).parent / "example_router"
INSTALL_LIMIT_S = 40
END_LIMIT_S = 20


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example is installed; nothing is fetched for it."""
    target, source = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("source") / "example"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, timeout=INSTALL_LIMIT_S)
    return target


def service_with(data_dir: Path, log: Path, *directories: Path) -> tuple[Service, str]:
    """A service that finds plug-ins in these directories, and its address."""
    port, metrics_port = free_ports(2)
    path = ":".join(map(str, (ROOT, ROOT / "protos/gen", *directories)))
    return decision_service(data_dir, log, port, metrics_port, PYTHONPATH=path), f"127.0.0.1:{port}"


@asynccontextmanager
async def running(service: Service, address: str) -> AsyncIterator[Client]:
    await service.start()
    client = Client(address)
    try:
        yield client
    finally:
        await client.close()
        assert await service.terminate() == 0, service.said


async def ended(service: Service) -> int:
    """The exit status of a service that does not start."""
    await service.spawn()
    assert service.process is not None
    async with asyncio.timeout(END_LIMIT_S):
        return await service.process.wait()


async def test_an_installed_plugin_picks_until_it_is_gone(installed: Path, tmp_path: Path) -> None:
    service, address = service_with(tmp_path / "data", tmp_path / "log", installed)
    async with running(service, address) as client:
        steps = [
            await client.add_target("ant", input_price=8.0, output_price=8.0),
            await client.add_target("bee", input_price=7.9, output_price=7.9),
        ]
        await client.add_combo("mine", steps, "auto", {"routerStrategy": "thrifty", "explorationRate": 0})
        decision = await client.decide("mine")
        assert [target.provider for target in decision.plan.targets] == ["bee", "ant"]
        assert decision.router_strategy == "thrifty"
        assert decision.reason.startswith("thrifty: the cheapest of 2 that are good enough (score 0.")
        told = await client.decisions.Explain(
            pb.ExplainRequest(request=pb.DecideRequest(model="mine")), timeout=LIMIT_S
        )
        assert told.decision.reason == decision.reason
        not_there = await refused(client.add_combo("other", steps, "auto", {"routerStrategy": "thrifti"}))
        assert (not_there.reason, not_there.field) == ("INVALID_FIELD", "config.routerStrategy")
        assert "'thrifty'" in not_there.message
    assert '"router_plugin"' in service.said
    without, _ = service_with(tmp_path / "data", tmp_path / "log-without")
    assert await ended(without) == 1
    assert "the stored combo 'mine' cannot be read: config.routerStrategy" in without.said
    assert "Traceback" not in without.said


async def test_without_a_plugin_its_name_is_unknown(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        model = await client.add_target("ant")
        told = await refused(client.add_combo("mine", [model], "auto", {"routerStrategy": "thrifty"}))
    assert (told.reason, told.field) == ("INVALID_FIELD", "config.routerStrategy")


async def test_a_bad_plugin_stops_the_start_with_one_line(installed: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    info = broken / "broken_router-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-router\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nbroken = broken_router:Broken\n")
    (broken / "broken_router.py").write_text("class Broken:\n    name = 'broken'\n    description = 'No select.'\n")
    service, _ = service_with(tmp_path / "data", tmp_path / "log", installed, broken)
    assert await ended(service) == 1
    [line] = [line for line in service.said.splitlines() if "plug-in" in line]
    assert line == (
        "router strategy plug-in, entry point 'broken' of package 'broken-router' (broken_router:Broken): Broken has no"
        " attribute 'select'; allowed: an object with name, description and select(pool, context)"
    )
    assert "Traceback" not in service.said


class Last:
    name = "last"
    description = "The last of the pool."

    def select(self, pool: Sequence[PoolMember], context: SelectContext) -> Choice:
        return Choice(pool[-1].candidate, "it is the last", 1.0)


async def test_one_that_is_registered_in_code_picks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_registered", {})
    register_strategy("last", Last())
    async with serving(tmp_path) as client:
        steps = [await client.add_target(name) for name in ("ant", "bee", "cat")]
        await client.add_combo("mine", steps, "auto", {"routerStrategy": "last", "explorationRate": 0})
        decision = await client.decide("mine")
    assert decision.plan.targets[0].provider == "cat"
    assert decision.reason == "last: it is the last (score 1)"


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    assert (EXAMPLE / "thrifty_router.py").read_text() in page
    entry = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    [(name, value)] = entry.items()
    assert f'[project.entry-points."{GROUP}"]\n{name} = "{value}"' in page


def test_the_page_lists_every_field() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    for values in (PoolMember, SelectContext, Choice):
        _, _, table = page.partition(f"| field of `{values.__name__}` | means |")
        listed = [
            name.strip("` ")
            for row in table.partition("\n\n")[0].splitlines()[2:]
            for name in row.split("|")[1].split(",")
        ]
        assert listed == list(values.__dataclass_fields__), values.__name__
