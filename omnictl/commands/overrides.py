"""``omnictl overrides``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from omnictl.connecting import connect
from omnictl.options import Remote, example, spread
from omnictl.printing import show_done, show_json, show_rows
from omnictl.problems import wrong_usage
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

app = typer.Typer(name="overrides", help="What a key changes in a channel's pool.", no_args_is_help=True)
stub_of = registry_pb2_grpc.OverrideServiceStub

COLUMNS: Mapping[str, Callable[[pb.Override], Any]] = {
    "key": lambda one: one.api_key_id,
    "channel": lambda one: one.channel,
    "excluded": lambda one: [each.candidate for each in one.candidates if each.excluded],
    "multipliers": lambda one: [
        f"{each.candidate} x {each.multiplier:g}" for each in one.candidates if each.HasField("multiplier")
    ],
    "order": lambda one: list(one.order),
    "strategy": lambda one: one.strategy,
}

Key = Annotated[str, typer.Argument(help="Id of the API key.")]
Channel = Annotated[str, typer.Argument(help="auto, auto/CHANNEL or CHANNEL.")]


@app.command("list", epilog=example("overrides list --key laptop"))
@spread
def list_(remote: Remote, *, key: Annotated[str, typer.Option(help="Only of this API key.")] = "") -> None:
    """List the overrides."""
    with connect(remote) as service:
        request = pb.ListOverridesRequest(api_key_id=key)
        rows = service.pages(stub_of(service.channel).ListOverrides, request, "overrides")
    show_rows(rows, COLUMNS, as_json=remote.json, empty="No override is stored.")


@app.command("get", epilog=example("overrides get laptop fast"))
@spread
def get(key: Key, channel: Channel, remote: Remote) -> None:
    """Show the override of one key and channel."""
    with connect(remote) as service:
        request = pb.GetOverrideRequest(api_key_id=key, channel=channel)
        answer = service.ask(stub_of(service.channel).GetOverride, request)
    _show(answer.override, remote)


@app.command("set", epilog=example("overrides set laptop fast --exclude openai/gpt-4o@openai-main"))
@spread
def set_(
    key: Key,
    channel: Channel,
    remote: Remote,
    *,
    exclude: Annotated[
        list[str] | None, typer.Option(help="PROVIDER/MODEL@CONNECTION to leave out; repeat it.")
    ] = None,
    multiplier: Annotated[
        list[str] | None, typer.Option(help="PROVIDER/MODEL@CONNECTION=0..1 on its score; repeat it.")
    ] = None,
    order: Annotated[
        list[str] | None, typer.Option(help="PROVIDER/MODEL@CONNECTION in the wanted order; repeat it.")
    ] = None,
    strategy: Annotated[str, typer.Option(help="Pinned strategy; not together with an order.")] = "",
) -> None:
    """Store the whole override of one key and channel; what was stored before is replaced."""
    override = pb.Override(
        api_key_id=key,
        channel=channel,
        candidates=_candidates(exclude or (), multiplier or ()),
        order=order,
        strategy=strategy,
    )
    with connect(remote) as service:
        request = pb.UpdateOverrideRequest(override=override)
        answer = service.ask(stub_of(service.channel).UpdateOverride, request)
    _show(answer.override, remote)


@app.command("remove", epilog=example("overrides remove laptop fast"))
@spread
def remove(key: Key, channel: Channel, remote: Remote) -> None:
    """Remove the override of one key and channel."""
    with connect(remote) as service:
        request = pb.DeleteOverrideRequest(api_key_id=key, channel=channel)
        service.ask(stub_of(service.channel).DeleteOverride, request)
    show_done(f"The override of {key} on {channel} is removed.", as_json=remote.json)


def _show(override: pb.Override, remote: Remote) -> None:
    if remote.json:
        show_json(override)
    else:
        show_rows([override], COLUMNS, as_json=False, empty="")


def _candidates(excluded: Sequence[str], multipliers: Sequence[str]) -> list[pb.CandidateOverride]:
    found = {name: pb.CandidateOverride(candidate=name, excluded=True) for name in excluded}
    for text in multipliers:
        name, _, number = text.rpartition("=")
        try:
            factor = float(number)
        except ValueError:
            factor = None
        if not name or factor is None:
            raise wrong_usage(f"--multiplier: got {text!r}; allowed: PROVIDER/MODEL@CONNECTION=NUMBER, 0 to 1")
        found.setdefault(name, pb.CandidateOverride(candidate=name)).multiplier = factor
    return list(found.values())
