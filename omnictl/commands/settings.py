"""``omnictl settings``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from omnictl.connecting import connect
from omnictl.options import Remote, example, spread
from omnictl.printing import plain, show_json, show_rows
from omnictl.problems import CommandError, wrong_usage
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

app = typer.Typer(name="settings", help="Settings of the whole service.", no_args_is_help=True)
stub_of = registry_pb2_grpc.SettingsServiceStub

COLUMNS: Mapping[str, Callable[[pb.EffectiveValue], Any]] = {
    "setting": lambda one: one.key,
    "value": lambda one: json.dumps(plain(one.value)),
    "set by": lambda one: one.layer,
}


@app.command("get", epilog=example("settings get hidePaidModels"))
@spread
def get(remote: Remote, *, name: Annotated[str, typer.Argument(help="One setting; all if unset.")] = "") -> None:
    """Show the settings in force, and what sets each of them."""
    with connect(remote) as service:
        settings = service.ask(stub_of(service.channel).GetSettings, pb.GetSettingsRequest()).settings
    rows = [one for one in settings.effective if name in ("", one.key)]
    if name and not rows:
        known = ", ".join(one.key for one in settings.effective)
        raise CommandError(f"there is no setting {name!r}; allowed: {known}")
    if remote.json:
        show_json(rows[0] if name else settings)
    else:
        show_rows(rows, COLUMNS, as_json=False, empty="Nothing is set.")


@app.command("set", epilog=example("settings set hidePaidModels=true"))
@spread
def set_(
    values: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help="VALUE in JSON, or plain text; null unsets.")
    ],
    remote: Remote,
) -> None:
    """Change settings; the next request reads them."""
    settings = pb.Settings()
    settings.values.update(dict(map(pair, values)))
    with connect(remote) as service:
        request = pb.UpdateSettingsRequest(settings=settings)
        stored = service.ask(stub_of(service.channel).UpdateSettings, request).settings
    if remote.json:
        show_json(stored)
    else:
        show_rows(stored.effective, COLUMNS, as_json=False, empty="Nothing is set.")


def pair(text: str) -> tuple[str, Any]:
    """Name and value of ``NAME=VALUE``. Raises CommandError."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise wrong_usage(f"{text!r}: got no name and value; allowed: NAME=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
