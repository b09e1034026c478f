"""``omnictl decide``."""

from __future__ import annotations

from typing import Annotated

import typer

from omnictl.asking import Asked, ModelArgument
from omnictl.connecting import Service, connect, duration
from omnictl.decisions import called, show_chain, show_head, show_trace
from omnictl.options import Remote, example, spread
from omnictl.printing import say, show_json
from omnictl.problems import CommandError
from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc

app = typer.Typer()


@app.command("decide", rich_help_panel="Routing", epilog=example("decide auto/fast --input-tokens 2000 --tools"))
@spread
def decide(
    model: ModelArgument,
    asked: Asked,
    remote: Remote,
    *,
    trace: Annotated[bool, typer.Option("--trace", help="Show every candidate and what its score is made of.")] = False,
    keep_lease: Annotated[
        bool, typer.Option("--keep-lease", help="Leave the lease to end by itself, and report its outcome elsewhere.")
    ] = False,
) -> None:
    """Make a real decision: it takes a lease, and rotation and sticky draws move on.

    No call follows, so the lease is given back at once as cancelled on our side, which blames nobody. `omnictl explain`
    shows the same without any effect.
    """
    with connect(remote) as service:
        stub = decision_pb2_grpc.DecisionServiceStub(service.channel)
        decision = service.ask(stub.Decide, asked.request(model, trace=trace))
        if remote.json:
            show_json(decision)
        else:
            show_head(decision)
            show_chain(decision)
            if trace:
                show_trace(decision.trace, factors=False)
        held = f"decision {decision.decision_id}: the lease is held for {duration(decision.lease_ms)}"
        if not keep_lease:
            _give_back(service, stub, decision)
            held = f"decision {decision.decision_id}: the lease was given back"
        if not remote.json:
            say(held)


def _give_back(service: Service, stub: decision_pb2_grpc.DecisionServiceAsyncStub, decision: pb.DecideResponse) -> None:
    first = next(called(decision.plan), None)
    outcome = pb.Outcome(
        decision_id=decision.decision_id,
        attempt=1,
        target_id=first.target_id if first else "",
        outcome_class=pb.OUTCOME_CLASS_LOCAL_CANCELLED,
        final=True,
    )
    answer = service.ask(stub.Report, pb.ReportRequest(outcomes=[outcome]))
    for refused in answer.rejected:
        raise CommandError(f"the lease of decision {decision.decision_id} was not given back: {refused.message}")
