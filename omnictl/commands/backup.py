"""``omnictl backup``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from decision_service import backup as backups
from omnictl.options import example, spread
from omnictl.printing import say
from omnictl.stores import Store, show_backup, told
from service_kit import clock

app = typer.Typer()


@app.command("backup", rich_help_panel="Running", epilog=example("backup omniroute-monday.backup"))
@spread
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new backup; it must not be there yet.")],
    store: Store,
    *,
    with_secret_key: Annotated[
        bool,
        typer.Option(
            "--with-secret-key", help="Put the secret key in: whoever has the file can read every credential."
        ),
    ] = False,
) -> None:
    """Write what is configured and learnt into one sealed file, also while the services run."""
    with told():
        manifest = backups.take(store.place(), file, int(clock.wall() * 1000), with_key=with_secret_key)
    show_backup(file, manifest, as_json=store.json)
    if not (manifest.with_key or store.json):
        say("The secret key is not in it, and it is worth nothing without: keep the key, apart from this file.")
