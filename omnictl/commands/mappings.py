"""``omnictl mappings``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from omnictl.connecting import connect
from omnictl.options import Remote, example, spread
from omnictl.printing import show_done, show_one, show_rows
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

app = typer.Typer(name="mappings", help="Model patterns that lead to combos.", no_args_is_help=True)
stub_of = registry_pb2_grpc.ModelMappingServiceStub

COLUMNS: Mapping[str, Callable[[pb.ModelMapping], Any]] = {
    "pattern": lambda one: one.pattern,
    "combo": lambda one: one.combo,
    "priority": lambda one: one.priority,
    "id": lambda one: one.id,
}


@app.command("list", epilog=example("mappings list"))
@spread
def list_(remote: Remote) -> None:
    """List the mappings."""
    with connect(remote) as service:
        request = pb.ListModelMappingsRequest()
        rows = service.pages(stub_of(service.channel).ListModelMappings, request, "mappings")
    show_rows(rows, COLUMNS, as_json=remote.json, empty="No mapping is stored.")


@app.command("add", epilog=example("mappings add 'gpt-*' frugal --priority 10 --id gpt"))
@spread
def add(
    pattern: Annotated[str, typer.Argument(help="Glob with * and ? over the whole model string.")],
    combo: Annotated[str, typer.Argument(help="Name of the combo.")],
    remote: Remote,
    *,
    priority: Annotated[int, typer.Option(help="Highest wins.", min=-(2**31), max=2**31 - 1)] = 0,
    id_: Annotated[str, typer.Option("--id", help="Id; made if unset.")] = "",
) -> None:
    """Let a model pattern lead to a combo."""
    mapping = pb.ModelMapping(id=id_, pattern=pattern, combo=combo, priority=priority)
    with connect(remote) as service:
        request = pb.CreateModelMappingRequest(mapping=mapping)
        answer = service.ask(stub_of(service.channel).CreateModelMapping, request)
    show_one(answer.mapping, as_json=remote.json)


@app.command("remove", epilog=example("mappings remove gpt"))
@spread
def remove(mapping: Annotated[str, typer.Argument(help="Id of the mapping.")], remote: Remote) -> None:
    """Remove a mapping."""
    with connect(remote) as service:
        service.ask(stub_of(service.channel).DeleteModelMapping, pb.DeleteModelMappingRequest(id=mapping))
    show_done(f"Mapping {mapping} is removed.", as_json=remote.json)
