"""``omnictl connections``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from google.protobuf import field_mask_pb2

from omnictl.changes import given, listed
from omnictl.connecting import connect
from omnictl.credential import CredentialOptions
from omnictl.options import Remote, example, spread
from omnictl.printing import say, show_done, show_one, show_rows
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

app = typer.Typer(name="connections", help="Accounts with providers.", no_args_is_help=True)
stub_of = registry_pb2_grpc.ConnectionServiceStub


def credential_of(view: pb.CredentialView) -> str:
    """Its kind, or the reference itself, and whether it can be used now."""
    return (view.reference or view.kind) + ("" if view.usable else ", unusable")


COLUMNS: Mapping[str, Callable[[pb.Connection], Any]] = {
    "id": lambda one: one.id,
    "provider": lambda one: one.provider,
    "label": lambda one: one.label,
    "enabled": lambda one: one.enabled,
    "tier": lambda one: one.account_tier,
    "models": lambda one: list(one.models) or one.default_model,
    "credential": lambda one: credential_of(one.credential_view),
    "origin": lambda one: one.origin,
}

Id = Annotated[str, typer.Argument(help="Id of the connection.")]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is stored of a connection beside its provider and credential."""

    label: Annotated[str | None, typer.Option(help="Name for people.")] = None
    default_model: Annotated[str | None, typer.Option(help="Model where a channel builds its pool.")] = None
    model: Annotated[list[str] | None, typer.Option(help="Model for channels; repeat it. Empty: none.")] = None
    base_url: Annotated[str | None, typer.Option(help="Instead of the provider's API base URL.")] = None
    tier: Annotated[str | None, typer.Option(help="ultra, pro, standard or free.")] = None
    max_concurrent: Annotated[int | None, typer.Option(min=0, help="Calls at once for each executor; 0: any.")] = None

    def fields(self) -> dict[str, Any]:
        """By their names in the contract; None: not given."""
        return {
            "label": self.label,
            "default_model": self.default_model,
            "models": listed(self.model),
            "base_url": self.base_url,
            "account_tier": self.tier,
            "max_concurrent": self.max_concurrent,
        }


@app.command("list", epilog=example("connections list --provider openai"))
@spread
def list_(remote: Remote, *, provider: Annotated[str, typer.Option(help="Only of this provider.")] = "") -> None:
    """List the connections."""
    with connect(remote) as service:
        request = pb.ListConnectionsRequest(provider=provider)
        rows = service.pages(stub_of(service.channel).ListConnections, request, "connections")
    show_rows(rows, COLUMNS, as_json=remote.json, empty="No connection is stored.")


@app.command("get", epilog=example("connections get openai-main"))
@spread
def get(connection: Id, remote: Remote) -> None:
    """Show one connection; never its secret."""
    with connect(remote) as service:
        answer = service.ask(stub_of(service.channel).GetConnection, pb.GetConnectionRequest(id=connection))
    show_one(answer.connection, as_json=remote.json)


@app.command("add", epilog=example("connections add openai --id openai-main --api-key-env OPENAI_API_KEY"))
@spread
def add(
    provider: Annotated[str, typer.Argument(help="Id of the provider.")],
    facts: Facts,
    credential: CredentialOptions,
    remote: Remote,
    *,
    id_: Annotated[str, typer.Option("--id", help="Id; made if unset.")] = "",
    disabled: Annotated[bool, typer.Option("--disabled", help="Keep it out of routing for now.")] = False,
) -> None:
    """Store a connection. Without a credential option the API key is asked for, or read from standard input."""
    values = facts.fields() | {"credential": credential.required(), "enabled": not disabled}
    connection = pb.Connection(id=id_, provider=provider, **values)
    with connect(remote) as service:
        request = pb.CreateConnectionRequest(connection=connection)
        answer = service.ask(stub_of(service.channel).CreateConnection, request)
    _show(answer.connection, remote)


@app.command("update", epilog=example("connections update openai-main --tier pro"))
@spread
def update(connection: Id, facts: Facts, credential: CredentialOptions, remote: Remote) -> None:
    """Change what is given of a connection, its credential too."""
    _change(remote, connection, given(**facts.fields(), credential=credential.given()))


@app.command("enable", epilog=example("connections enable openai-main"))
@spread
def enable(connection: Id, remote: Remote) -> None:
    """Let a connection take part in routing again."""
    _change(remote, connection, {"enabled": True})


@app.command("disable", epilog=example("connections disable openai-main"))
@spread
def disable(connection: Id, remote: Remote) -> None:
    """Keep a connection out of routing, from the next request on."""
    _change(remote, connection, {"enabled": False})


def _change(remote: Remote, connection: str, values: dict[str, Any]) -> None:
    request = pb.UpdateConnectionRequest(
        connection=pb.Connection(id=connection, **values), update_mask=field_mask_pb2.FieldMask(paths=list(values))
    )
    with connect(remote) as service:
        answer = service.ask(stub_of(service.channel).UpdateConnection, request)
    _show(answer.connection, remote)


def _show(connection: pb.Connection, remote: Remote) -> None:
    show_one(connection, as_json=remote.json)
    if not (connection.credential_view.usable or remote.json):
        say(f"Note: it has no credential that can be used; `omnictl connections update {connection.id}` takes one.")


@app.command("remove", epilog=example("connections remove openai-main"))
@spread
def remove(connection: Id, remote: Remote) -> None:
    """Remove a connection and its stored credential."""
    with connect(remote) as service:
        service.ask(stub_of(service.channel).DeleteConnection, pb.DeleteConnectionRequest(id=connection))
    show_done(f"Connection {connection} is removed.", as_json=remote.json)
