"""``omnictl state``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from omnictl.connecting import connect, duration
from omnictl.options import Remote, example, spread
from omnictl.printing import show_one, show_rows
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

app = typer.Typer(name="state", help="Breakers, cooldowns, lockouts, exclusions and leases.", no_args_is_help=True)
stub_of = registry_pb2_grpc.StateServiceStub

COLUMNS: Mapping[str, Callable[[pb.State], Any]] = {
    "kind": lambda one: one.kind,
    "key": lambda one: one.key,
    "state": lambda one: one.state,
    "reason": lambda one: one.reason,
    "ends in": lambda one: duration(one.until_ms) if one.HasField("until_ms") else None,
    "count": lambda one: one.count,
}


@app.command("list", epilog=example("state list --abnormal"))
@spread
def list_(
    remote: Remote,
    *,
    kind: Annotated[str, typer.Option(help="breaker, cooldown, lockout, exclusion or lease; all if unset.")] = "",
    abnormal: Annotated[bool, typer.Option("--abnormal", help="Only what stops or slows a candidate.")] = False,
) -> None:
    """List the state machines and leases."""
    request = pb.ListStatesRequest(kind=kind, abnormal_only=abnormal)
    with connect(remote) as service:
        rows = service.pages(stub_of(service.channel).ListStates, request, "states")
    nothing = "Nothing stops or slows a candidate." if abnormal else "Nothing has happened yet."
    show_rows(rows, COLUMNS, as_json=remote.json, empty=nothing)


@app.command("reset", epilog=example("state reset breaker openai"))
@spread
def reset(
    kind: Annotated[str, typer.Argument(help="breaker, cooldown, lockout or exclusion.")],
    key: Annotated[str, typer.Argument(help="Key as `state list` shows it.")],
    remote: Remote,
) -> None:
    """Put a state machine back to where nothing is stopped."""
    with connect(remote) as service:
        answer = service.ask(stub_of(service.channel).ResetState, pb.ResetStateRequest(kind=kind, key=key))
    show_one(answer.state, as_json=remote.json)
