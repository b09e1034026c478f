"""``omnictl combos``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from google.protobuf import field_mask_pb2

from omnictl.changes import by_id_or_name, from_file
from omnictl.connecting import Service, connect
from omnictl.options import Remote, example, spread
from omnictl.printing import plain, say, show_done, show_json, show_pairs, show_rows, show_table
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

app = typer.Typer(name="combos", help="Named routing policies.", no_args_is_help=True)
stub_of = registry_pb2_grpc.ComboServiceStub

OUTPUT_ONLY = ("effective", "version", "created_at", "updated_at")
DEFAULT = "default"
NOT_MASKED = ("id", "etag")
COLUMNS: Mapping[str, Callable[[pb.Combo], Any]] = {
    "name": lambda combo: combo.name,
    "strategy": lambda combo: combo.strategy,
    "steps": lambda combo: [step.combo_name or step.model for step in combo.steps],
    "description": lambda combo: combo.description,
    "id": lambda combo: combo.id,
}

Combo = Annotated[str, typer.Argument(help="Id or name of the combo.")]
File = Annotated[
    str, typer.Option("--file", "-f", help="YAML or JSON: name, strategy, steps, config, description; - for stdin.")
]


@app.command("list", epilog=example("combos list"))
@spread
def list_(remote: Remote) -> None:
    """List the combos."""
    with connect(remote) as service:
        rows = _all(service)
    show_rows(rows, COLUMNS, as_json=remote.json, empty="No combo is stored; `auto` works without any.")


@app.command("get", epilog=example("combos get frugal --json"))
@spread
def get(combo: Combo, remote: Remote) -> None:
    """Show one combo with its steps and config. --json shows defaults too, and can be edited and sent back."""
    with connect(remote) as service:
        found = by_id_or_name(_all(service), combo, "combo")
    _show(found, remote)


@app.command("create", epilog=example("combos create --file frugal.yaml"))
@spread
def create(file: File, remote: Remote) -> None:
    """Store a new combo."""
    combo, _ = from_file(file, pb.Combo(), OUTPUT_ONLY)
    with connect(remote) as service:
        answer = service.ask(stub_of(service.channel).CreateCombo, pb.CreateComboRequest(combo=combo))
    _show(answer.combo, remote, answer.warning.message)


@app.command("update", epilog=example("combos update frugal --file frugal.yaml"))
@spread
def update(combo: Combo, file: File, remote: Remote) -> None:
    """Replace what the file names; the rest of the combo stays. An etag in the file must be the stored one."""
    changed, names = from_file(file, pb.Combo(), OUTPUT_ONLY)
    mask = field_mask_pb2.FieldMask(paths=[name for name in names if name not in NOT_MASKED])
    with connect(remote) as service:
        changed.id = by_id_or_name(_all(service), combo, "combo").id
        request = pb.UpdateComboRequest(combo=changed, update_mask=mask)
        answer = service.ask(stub_of(service.channel).UpdateCombo, request)
    _show(answer.combo, remote, answer.warning.message)


@app.command("remove", epilog=example("combos remove frugal"))
@spread
def remove(combo: Combo, remote: Remote) -> None:
    """Remove a combo that no other one and no mapping refers to."""
    with connect(remote) as service:
        found = by_id_or_name(_all(service), combo, "combo")
        service.ask(stub_of(service.channel).DeleteCombo, pb.DeleteComboRequest(id=found.id))
    show_done(f"Combo {found.name} is removed.", as_json=remote.json)


def _all(service: Service) -> list[pb.Combo]:
    return service.pages(stub_of(service.channel).ListCombos, pb.ListCombosRequest(), "combos")


def _show(combo: pb.Combo, remote: Remote, warning: str = "") -> None:
    if remote.json:
        show_json(combo)
        return
    shown = plain(combo)
    show_pairs((name, shown.get(name)) for name in ("id", "name", "strategy", "description", "etag"))
    steps = [
        (place, step.combo_name or step.model, step.connection_id, step.weight, step.label or step.step_id)
        for place, step in enumerate(combo.steps, start=1)
    ]
    show_table(("#", "step", "connection", "weight", "label"), steps, empty="It has no steps: the whole pool.")
    chosen = [(one.key, json.dumps(plain(one.value)), one.layer) for one in combo.effective if one.layer != DEFAULT]
    show_table(("config", "value", "set by"), chosen, empty="Its config is the default one.")
    if warning:
        say(f"Note: {warning}")
