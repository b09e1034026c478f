"""``omnictl explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from omnictl.asking import Asked, ModelArgument
from omnictl.connecting import connect, refusal
from omnictl.decisions import show_head, show_trace
from omnictl.options import Remote, example, spread
from omnictl.pool import show_pool
from omnictl.printing import show_json
from omnictl.problems import CommandError
from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc
from service_kit.errors import Reason, ServiceError

app = typer.Typer()

EMPTIED = (Reason.NO_AVAILABLE_TARGET, Reason.POLICY_EXCLUDES_ALL)  # refused for what the pool shows


@app.command("explain", rich_help_panel="Routing", epilog=example("explain auto/cheap --input-tokens 4000 --factors"))
@spread
def explain(
    model: ModelArgument,
    asked: Asked,
    remote: Remote,
    *,
    factors: Annotated[bool, typer.Option("--factors", help="Show all sixteen factors of every candidate.")] = False,
    dump: Annotated[
        bool, typer.Option("--dump", help="Write the pool and state as a scenario for `omnictl simulate` instead.")
    ] = False,
) -> None:
    """Show the decision that would be made and why: every candidate with its score, or with what stops it.

    Nothing changes by it: no lease, no rotation.
    """
    with connect(remote) as service:
        stub = decision_pb2_grpc.DecisionServiceStub(service.channel)
        request = pb.ExplainRequest(request=asked.request(model), include_scenario=dump)
        answer = service.ask(stub.Explain, request)
        if dump:
            _show_scenario(answer)
            return
        if remote.json:
            show_json(answer)
        elif answer.error.reason in EMPTIED:
            show_pool(service.ask(stub.ListCandidates, pb.ListCandidatesRequest(model=model, api_key_id=asked.key)))
    if answer.HasField("error"):
        raise refusal(_refused(answer.error))
    if not remote.json:
        show_head(answer.decision)
        show_trace(answer.decision.trace, factors=factors)


def _show_scenario(answer: pb.ExplainResponse) -> None:
    """Also of a request that is refused: the scenario is refused alike."""
    if not answer.scenario:
        raise refusal(_refused(answer.error)) if answer.HasField("error") else CommandError("no scenario was given")
    print(answer.scenario)


def _refused(error: pb.DecideError) -> ServiceError:
    reason = Reason(error.reason) if error.reason in Reason.__members__ else Reason.INTERNAL
    wait = error.retry_after_ms if error.HasField("retry_after_ms") else None
    return ServiceError(reason, error.message, retry_after_ms=wait)
