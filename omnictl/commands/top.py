"""``omnictl top``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from omnictl.connecting import Service, Unreachable, connect
from omnictl.options import Remote, example, spread
from omnictl.printing import show, show_line, width
from omnictl.problems import CommandError
from omnictl.screen import drawn
from omnictl.watching import NOTHING, Frame, look
from service_kit import clock

app = typer.Typer()

INTERVAL_S, TIMEOUT_S = 2.0, 3.0


@app.command("top", rich_help_panel="Routing", epilog=example("top auto/fast --interval 5"))
@spread
def top(
    remote: Remote,
    *,
    model: Annotated[str, typer.Argument(help="Whose candidates are shown: a channel, combo or model.")] = "auto",
    key: Annotated[str, typer.Option(help="Only decisions of this API key, and its exclusions.")] = "",
    interval: Annotated[
        float | None, typer.Option(help="Seconds between two looks; 2 if unset.", min=0.1, max=3600)
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="One look; also in a pipe, where no --interval is given.")
    ] = False,
) -> None:
    """Watch decisions, candidates and what stops them, until Ctrl-C. --json: one object a line for each look."""
    with connect(replace(remote, timeout=remote.timeout or TIMEOUT_S)) as service:
        if once or (interval is None and not sys.stdout.isatty()):
            _show(look(service, model, key, clock.wall), remote)
            return
        frames = _frames(service, model, key, interval or INTERVAL_S)
        with suppress(KeyboardInterrupt):
            if remote.json or not sys.stdout.isatty():
                for frame in frames:
                    _show(frame, remote)
            else:
                _live(frames)


def _frames(service: Service, model: str, key: str, interval: float) -> Iterator[Frame]:
    """Look after look. While the service is away, the last one with the reason; a first refusal ends the command."""
    frame: Frame | None = None
    while True:
        try:
            frame = look(service, model, key, clock.wall)
        except CommandError as error:
            if frame is None and not isinstance(error, Unreachable):
                raise
            frame = replace(frame or Frame(0.0, NOTHING), at=clock.wall(), rates=NOTHING, problem=error.message)
        yield frame
        time.sleep(interval)


def _show(frame: Frame, remote: Remote) -> None:
    if remote.json:
        show_line(frame.plain())
    else:
        show(drawn(frame, width(), None))
        sys.stdout.flush()


def _live(frames: Iterator[Frame]) -> None:
    console = Console(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for frame in frames:
            live.update(drawn(frame, *console.size), refresh=True)
