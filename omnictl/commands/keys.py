"""``omnictl keys``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from google.protobuf import field_mask_pb2

from omnictl.changes import by_id_or_name, given, instant, listed, switched
from omnictl.connecting import Service, connect
from omnictl.options import Remote, example, spread
from omnictl.printing import say, show_done, show_json, show_one, show_rows
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

app = typer.Typer(name="keys", help="Keys that clients present.", no_args_is_help=True)
stub_of = registry_pb2_grpc.ApiKeyServiceStub

COLUMNS: Mapping[str, Callable[[pb.ApiKey], Any]] = {
    "id": lambda key: key.id,
    "name": lambda key: key.name,
    "prefix": lambda key: key.prefix,
    "enabled": lambda key: key.enabled,
    "scopes": lambda key: list(key.scopes),
    "models": lambda key: list(key.allowed_models) or "all",
    "connections": lambda key: list(key.allowed_connections) or "all",
    "expires": lambda key: key.expires_at.ToJsonString() if key.HasField("expires_at") else None,
}
Key = Annotated[str, typer.Argument(help="Id or name of the key.")]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a key may do."""

    scope: Annotated[list[str] | None, typer.Option(help="inference or admin; repeat it.")] = None
    model: Annotated[list[str] | None, typer.Option(help="Allowed model, with globs; repeat it. Empty: all.")] = None
    connection: Annotated[list[str] | None, typer.Option(help="Allowed connection; repeat it. Empty: all.")] = None
    rpm: Annotated[int | None, typer.Option(help="Requests a minute; 0: no limit.", min=0, max=2**32 - 1)] = None
    tpm: Annotated[int | None, typer.Option(help="Tokens a minute; 0: no limit.", min=0, max=2**53)] = None
    usd_per_day: Annotated[float | None, typer.Option(help="USD in a UTC day; 0: no limit.", min=0)] = None
    usd_per_month: Annotated[float | None, typer.Option(help="USD in a UTC month; 0: no limit.", min=0)] = None
    expires: Annotated[str | None, typer.Option(help="Date or instant, UTC; or never.")] = None

    def fields(self) -> dict[str, Any]:
        """By the paths of an update mask; None: not given."""
        return {
            "scopes": listed(self.scope),
            "allowed_models": listed(self.model),
            "allowed_connections": listed(self.connection),
            "limits.requests_per_minute": self.rpm,
            "limits.tokens_per_minute": self.tpm,
            "limits.usd_per_day": self.usd_per_day,
            "limits.usd_per_month": self.usd_per_month,
            "expires_at": self.expires,
        }


@app.command("list", epilog=example("keys list"))
@spread
def list_(remote: Remote) -> None:
    """List the keys; never their secrets."""
    with connect(remote) as service:
        rows = _all(service)
    show_rows(rows, COLUMNS, as_json=remote.json, empty="No key is stored: clients need none.")


@app.command("create", epilog=example("keys create laptop --model 'auto*' --usd-per-day 5"))
@spread
def create(
    name: Annotated[str, typer.Argument(help="Name for people.")],
    policy: Policy,
    remote: Remote,
    *,
    id_: Annotated[str, typer.Option("--id", help="Id; made if unset.")] = "",
) -> None:
    """Make a key and show it, this once."""
    values = {path: value for path, value in policy.fields().items() if value is not None}
    with connect(remote) as service:
        request = pb.CreateApiKeyRequest(key=_key(id=id_, name=name, **values))
        answer = service.ask(stub_of(service.channel).CreateApiKey, request)
    if remote.json:
        show_json(answer)
        return
    show_one(answer.key, as_json=False)
    say(f"\nThe key, shown this once:\n{answer.secret}")


@app.command("update", epilog=example("keys update laptop --rpm 60"))
@spread
def update(
    key: Key,
    policy: Policy,
    remote: Remote,
    *,
    name: Annotated[str | None, typer.Option(help="Name for people.")] = None,
    enable: Annotated[bool, typer.Option("--enable", help="Let it be used again.")] = False,
    disable: Annotated[bool, typer.Option("--disable", help="Refuse it from now on.")] = False,
) -> None:
    """Change what is given of a key."""
    values = given(name=name, enabled=switched(enable=enable, disable=disable), **policy.fields())
    mask = field_mask_pb2.FieldMask(paths=list(values))
    with connect(remote) as service:
        found = by_id_or_name(_all(service), key, "key")
        request = pb.UpdateApiKeyRequest(key=_key(id=found.id, **values), update_mask=mask)
        answer = service.ask(stub_of(service.channel).UpdateApiKey, request)
    show_one(answer.key, as_json=remote.json)


@app.command("remove", epilog=example("keys remove laptop"))
@spread
def remove(key: Key, remote: Remote) -> None:
    """Remove a key with its overrides; it is refused from then on."""
    with connect(remote) as service:
        found = by_id_or_name(_all(service), key, "key")
        service.ask(stub_of(service.channel).DeleteApiKey, pb.DeleteApiKeyRequest(id=found.id))
    show_done(f"Key {found.name} is removed.", as_json=remote.json)


def _all(service: Service) -> list[pb.ApiKey]:
    return service.pages(stub_of(service.channel).ListApiKeys, pb.ListApiKeysRequest(), "keys")


def _key(**values: Any) -> pb.ApiKey:
    """A key from values by path."""
    limits = {path.removeprefix("limits."): values.pop(path) for path in [*values] if path.startswith("limits.")}
    expires = values.pop("expires_at", "never")
    return pb.ApiKey(**values, limits=pb.KeyLimits(**limits), expires_at=instant(expires, "--expires"))
