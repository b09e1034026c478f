"""``omnictl up``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from omnictl import settings, up
from omnictl.options import example, spread
from service_kit import lifecycle, log

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class Lines:
    """What the launcher says."""

    json: Annotated[
        bool, typer.Option("--json", help="One JSON line on standard output when all is ready; logs in JSON, too.")
    ] = False


@app.command("up", rich_help_panel="Running", epilog=example("up --json"))
@spread
def start(lines: Lines) -> None:
    """Start the services on this machine, with demo providers when no provider key is set. Ctrl-C stops them."""
    environ = settings.environment()
    log.configure("launcher", json=lines.json)
    raise typer.Exit(lifecycle.run(lambda stop: up.run(environ, stop, as_json=lines.json)))
