"""``omnictl models``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from omnictl.connecting import connect
from omnictl.options import Remote, example, spread
from omnictl.printing import show_one, show_rows
from omnictl.problems import wrong_usage
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

app = typer.Typer(name="models", help="What is known of models.", no_args_is_help=True)
stub_of = registry_pb2_grpc.CatalogServiceStub

COLUMNS: Mapping[str, Callable[[pb.Model], Any]] = {
    "model": lambda one: f"{one.provider}/{one.model}",
    "tier": lambda one: one.economic_tier,
    "input USD/1M": lambda one: one.input_price if one.HasField("input_price") else None,
    "output USD/1M": lambda one: one.output_price if one.HasField("output_price") else None,
    "window": lambda one: one.context_window or None,
    "max output": lambda one: one.max_output_tokens or None,
    "capabilities": lambda one: [name for name in one.capabilities if not name.startswith("-")],
    "source": lambda one: "hidden" if one.hidden else one.source,
}


@app.command("list", epilog=example("models list --provider openai"))
@spread
def list_(
    remote: Remote,
    *,
    provider: Annotated[str, typer.Option(help="Only of this provider.")] = "",
    every: Annotated[
        bool, typer.Option("--all", help="Those of the whole catalogue, not only of connected providers.")
    ] = False,
) -> None:
    """List the models of connected providers, or of one provider."""
    request = pb.ListModelsRequest(provider=provider, connected_only=not (every or provider))
    with connect(remote) as service:
        rows = service.pages(stub_of(service.channel).ListModels, request, "models")
    show_rows(rows, COLUMNS, as_json=remote.json, empty="No model: connect a provider, or look with --all.")


@app.command("get", epilog=example("models get openai/gpt-4o"))
@spread
def get(model: Annotated[str, typer.Argument(help="PROVIDER/MODEL.")], remote: Remote) -> None:
    """Show what is known of one model."""
    provider, slash, name = model.partition("/")
    if not (provider and slash and name):
        raise wrong_usage(f"{model!r}: got no provider and model; allowed: PROVIDER/MODEL")
    with connect(remote) as service:
        request = pb.GetModelRequest(provider=provider, model=name)
        answer = service.ask(stub_of(service.channel).GetModel, request)
    show_one(answer.model, as_json=remote.json)
