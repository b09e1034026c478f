"""``omnictl restore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from decision_service import backup as backups
from omnictl.options import example, spread
from omnictl.printing import say
from omnictl.stores import Store, show_backup, told

app = typer.Typer()


@app.command("restore", rich_help_panel="Running", epilog=example("restore omniroute-monday.backup --data-dir data"))
@spread
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `omnictl backup` wrote.")],
    store: Store,
    *,
    force: Annotated[bool, typer.Option("--force", help="In place of the store that is there, which is lost.")] = False,
) -> None:
    """Put a backup back, all of it or nothing. The services must be stopped."""
    place = store.place()
    with told(), backups.open_backup(file, place) as (backup, key):
        backups.restore(backup, key, place, force=force)
    show_backup(file, backup.manifest, as_json=store.json)
    if not store.json:
        say("It is restored; the services can start.")
