"""What ``omnictl up`` starts: the three services, and the demo providers when there is nothing else to ask."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TextIO

from decision_service.catalog import Catalog
from omnictl.demo import catalog
from omnictl.settings import LauncherSettings
from service_kit import settings
from service_kit.launcher import ChildSpec, Port, Probe, supervise

ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]", "": "127.0.0.1"}  # noqa: S104 - how to reach it
NAME_WIDTH = 8
# At a terminal nobody waits as long as behind a load balancer.
QUICK_END = {"OMNIROUTE_EDGE_DRAIN_MS": "5000", "OMNIROUTE_EXECUTOR_GRACE_S": "5"}


async def run(environ: Mapping[str, str], stop: asyncio.Event, *, as_json: bool = False) -> None:
    """Run until ``stop``. Raises SettingsError, or LaunchError when the services cannot run.

    ``as_json``: what is said is for programs.
    """
    if as_json:
        environ = {"OMNIROUTE_LOG_JSON": "true", **environ}
    wanted = settings.read(LauncherSettings, environ)
    keyed = keyed_providers(environ)
    with_demo = wanted.demo == "always" or (wanted.demo == "auto" and not keyed)
    demo_ports = free_ports(len(catalog.PROVIDERS)) if with_demo else ()
    specs = children(wanted, shared_environ(wanted, environ, demo_ports), demo_ports)
    told = ready_line if as_json else banner
    await supervise(specs, stop, on_ready=lambda: _say(told(wanted, keyed, with_demo)), emit=_emit)


def keyed_providers(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of the catalogue's providers that the decision service will find a key for."""
    return tuple(sorted(Catalog().by_variable(name for name, value in environ.items() if value)))


def shared_environ(wanted: LauncherSettings, environ: Mapping[str, str], demo_ports: Sequence[int]) -> dict[str, str]:
    """What every child gets: the launcher's environment, and what makes the services find and trust each other."""
    defaults = QUICK_END | {
        "OMNIROUTE_DECISION_ADDRESS": _reachable(wanted.decision_bind),
        "OMNIROUTE_EXECUTOR_ADDRESS": _reachable(wanted.executor_bind),
        "OMNIROUTE_EXECUTOR_TOKEN": secrets.token_urlsafe(32),
        "OMNIROUTE_EDGE_TOKEN": secrets.token_urlsafe(32),
        "OMNIROUTE_LOG_JSON": "false",
        "PYTHONUNBUFFERED": "1",
    }
    demo = {
        "OMNIROUTE_DEMO_PORTS": ",".join(map(str, demo_ports)),
        "OMNIROUTE_DEMO_PROVIDERS": catalog.describe(demo_ports) if demo_ports else "",
    }
    return {**defaults, **environ, **demo}


def children(wanted: LauncherSettings, environ: Mapping[str, str], demo_ports: Sequence[int]) -> list[ChildSpec]:
    """In the order in which they may rely on each other; they stop in the reverse one."""
    decision = Port(wanted.decision_metrics_host, wanted.decision_metrics_port, "OMNIROUTE_DECISION_METRICS_PORT")
    executor = Port(wanted.executor_metrics_host, wanted.executor_metrics_port, "OMNIROUTE_EXECUTOR_METRICS_PORT")
    edge = Port(wanted.edge_host, wanted.edge_port, "OMNIROUTE_EDGE_PORT")
    services = [
        _service("decision_service", environ, _port(wanted.decision_bind, "OMNIROUTE_DECISION_BIND"), decision),
        _service("executor", environ, _port(wanted.executor_bind, "OMNIROUTE_EXECUTOR_BIND"), executor),
        _service("edge_gateway", environ, edge),
    ]
    if not demo_ports:
        return services
    ready = Probe("127.0.0.1", demo_ports[-1], "/healthz")
    return [ChildSpec("demo", _module("omnictl.demo"), environ, ready=ready), *services]


def free_ports(count: int) -> tuple[int, ...]:
    """Ports that nobody listens on now; held together until all are chosen, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return tuple(one.getsockname()[1] for one in sockets)


def banner(wanted: LauncherSettings, keyed: Sequence[str], with_demo: bool) -> str:
    """What the person at the terminal needs first."""
    base = _base_url(wanted)
    demo = "demo-fast, demo-cheap, demo-flaky: simulated, on this machine; set OPENAI_API_KEY or the like for real ones"
    providers = [*([", ".join(keyed)] if keyed else []), *([demo] if with_demo else [])]
    return f"""
OmniRoute is ready.

  OpenAI API   {base}
  Decisions    {_reachable(wanted.decision_bind)} (gRPC)
  Providers    {"; ".join(providers) or "those that are stored"}

Try it:

  curl {base}/chat/completions -H 'content-type: application/json' \\
    -d '{{"model": "auto", "messages": [{{"role": "user", "content": "Hello"}}]}}'

Ctrl-C stops everything.
"""


def ready_line(wanted: LauncherSettings, keyed: Sequence[str], with_demo: bool) -> str:
    """The same for a program: one line of JSON."""
    told = {"event": "ready", "openai_api": _base_url(wanted), "decisions": _reachable(wanted.decision_bind)}
    return json.dumps(told | {"providers": [*keyed], "demo_providers": with_demo}) + "\n"


def _base_url(wanted: LauncherSettings) -> str:
    return f"http://{ANY_HOST.get(wanted.edge_host, wanted.edge_host)}:{wanted.edge_port}/v1"


def _service(module: str, environ: Mapping[str, str], *ports: Port) -> ChildSpec:
    """Readiness is asked at the last of its ports."""
    host = ANY_HOST.get(ports[-1].host, ports[-1].host).strip("[]")
    return ChildSpec(module.partition("_")[0], _module(module), environ, ports, Probe(host, ports[-1].number))


def _module(name: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name)


def _port(bind: str, setting: str) -> Port:
    host, _, number = bind.rpartition(":")
    if not number.isdigit():
        raise settings.SettingsError(f"{setting}: got {bind!r}; allowed: host:port")
    return Port(host.strip("[]"), int(number), setting)


def _reachable(bind: str) -> str:
    host, _, port = bind.rpartition(":")
    return f"{ANY_HOST.get(host, host)}:{port}"


def _emit(name: str, line: str) -> None:
    _write(sys.stderr, f"{name:<{NAME_WIDTH}} | {line}\n")


def _say(text: str) -> None:
    _write(sys.stdout, text)


def _write(stream: TextIO, text: str) -> None:
    with suppress(OSError):  # a reader that went away is no reason to stop the services
        stream.write(text)
        stream.flush()
