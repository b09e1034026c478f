"""``omnictl candidates``."""

from __future__ import annotations

from typing import Annotated

import typer

from omnictl.asking import ModelArgument
from omnictl.connecting import connect
from omnictl.options import Remote, example, spread
from omnictl.pool import show_pool
from omnictl.printing import show_json
from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc

app = typer.Typer()


@app.command("candidates", rich_help_panel="Routing", epilog=example("candidates auto/cheap"))
@spread
def candidates(
    model: ModelArgument,
    remote: Remote,
    *,
    key: Annotated[str, typer.Option(help="Id of the API key whose exclusions apply.")] = "",
) -> None:
    """List the pool of a channel, combo or model, and whether each candidate can be chosen now."""
    with connect(remote) as service:
        stub = decision_pb2_grpc.DecisionServiceStub(service.channel)
        pool = service.ask(stub.ListCandidates, pb.ListCandidatesRequest(model=model, api_key_id=key))
    if remote.json:
        show_json(pool)
    else:
        show_pool(pool)
