"""``omnictl up``."""

from __future__ import annotations

import typer

from omnictl import settings, up
from service_kit import lifecycle, log

app = typer.Typer()


@app.command("up", rich_help_panel="Running")
def start() -> None:
    """Start the services on this machine, with demo providers when no provider key is set. Ctrl-C stops them."""
    environ = settings.environment()
    log.configure("launcher", json=False)
    raise typer.Exit(lifecycle.run(lambda stop: up.run(environ, stop)))
