"""A service with I/O of its own, which asks OmniRoute only where to go.

    python docs/examples/direct_caller.py "What is a tide?"

Decide names the targets in order; each is called with httpx, and what came of it is reported, until one answers.
Credentials are this service's own business: a decision carries none.
"""

from __future__ import annotations

import math
import os
import sys
import time

import grpc
import httpx

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc

ADDRESS = os.environ.get("OMNIROUTE_DECISION_ADDRESS", "127.0.0.1:50051")
CLASSES = {
    401: pb.OUTCOME_CLASS_AUTH_FAILED,
    402: pb.OUTCOME_CLASS_QUOTA_EXHAUSTED,
    403: pb.OUTCOME_CLASS_AUTH_FAILED,
    404: pb.OUTCOME_CLASS_MODEL_NOT_FOUND,
    408: pb.OUTCOME_CLASS_UPSTREAM_ERROR,
    429: pb.OUTCOME_CLASS_RATE_LIMITED,
    529: pb.OUTCOME_CLASS_OVERLOADED,
}
FAILS_EVERYWHERE = (415, 422)  # it is the request that is wrong, so no other target would take it


def ask(stub: decision_pb2_grpc.DecisionServiceStub, client: httpx.Client, question: str) -> str:
    """The answer of the first target that gives one. Raises grpc.RpcError for a refusal, RuntimeError when all fail."""
    features = pb.RequestFeatures(input_tokens=len(question) // 4, last_user_text=question[:16_000])
    decision = stub.Decide(pb.DecideRequest(model="auto", features=features), timeout=1.0)
    targets = targets_of(decision)
    for attempt, target in enumerate(targets, start=1):
        # Should this process be stopped in the middle of a call, then the call was nobody's fault.
        outcome, answer = pb.Outcome(outcome_class=pb.OUTCOME_CLASS_LOCAL_CANCELLED, final=True), ""
        try:
            outcome, answer = call(client, target, question)
            outcome.final = is_last(outcome, attempt, targets)  # else the lease moves on to the next target
        finally:
            report(stub, decision.decision_id, attempt, target, outcome)
        if answer:
            return answer
        print(failure(target, outcome), file=sys.stderr)
        if outcome.final:
            break
    raise RuntimeError(f"none of {len(targets)} targets answered")


def targets_of(decision: pb.DecideResponse) -> list[pb.Target]:
    """The targets to try, in order. A caller that can do one call at a time asks policies that plan one at a time."""
    if decision.plan.shape != pb.Plan.SHAPE_SINGLE:
        shape = pb.Plan.Shape.Name(decision.plan.shape)
        raise RuntimeError(f"{decision.combo} plans several calls ({shape}): ask for another model")
    return list(decision.plan.targets)[: decision.plan.retry.max_attempts]


def is_last(outcome: pb.Outcome, attempt: int, targets: list[pb.Target]) -> bool:
    """No further target is tried: one has answered, none would, or none is left."""
    answered = outcome.outcome_class == pb.OUTCOME_CLASS_SUCCESS
    return answered or outcome.http_status in FAILS_EVERYWHERE or attempt == len(targets)


def call(client: httpx.Client, target: pb.Target, question: str) -> tuple[pb.Outcome, str]:
    """What one call came to, and the answer, empty when there is none."""
    started = time.monotonic()
    try:
        outcome, answer = judge(client.send(request_for(client, target, question)))
    except httpx.TimeoutException:
        outcome, answer = pb.Outcome(outcome_class=pb.OUTCOME_CLASS_TIMEOUT), ""
    except httpx.TransportError:
        outcome, answer = pb.Outcome(outcome_class=pb.OUTCOME_CLASS_NETWORK), ""
    outcome.latency_ms = round(1000 * (time.monotonic() - started))
    return outcome, answer


def request_for(client: httpx.Client | httpx.AsyncClient, target: pb.Target, question: str) -> httpx.Request:
    """The request to a target that speaks OpenAI's dialect, with the key that this service has for its provider."""
    key = os.environ.get(f"{target.provider.upper().replace('-', '_')}_API_KEY", "")
    return client.build_request(
        "POST",
        f"{target.base_url}/chat/completions",
        json={"model": target.model, "messages": [{"role": "user", "content": question}]},
        headers={"authorization": f"Bearer {key}"} if key else {},
        timeout=target.timeout_ms / 1000,
    )


def judge(response: httpx.Response) -> tuple[pb.Outcome, str]:
    """The class of a response. A 2xx is a success only with a text in it."""
    outcome = pb.Outcome(http_status=response.status_code)
    if not response.is_success:
        other = pb.OUTCOME_CLASS_UPSTREAM_ERROR if response.status_code >= 500 else pb.OUTCOME_CLASS_INVALID_REQUEST
        outcome.outcome_class = CLASSES.get(response.status_code, other)
        if (hint := retry_after_ms(response.headers.get("retry-after", ""))) is not None:
            outcome.retry_after_ms = hint
        return outcome, ""
    try:
        body = response.json()
        answer = body["choices"][0]["message"]["content"]
        usage = body.get("usage") or {}
        outcome.input_tokens, outcome.output_tokens = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        outcome.outcome_class = pb.OUTCOME_CLASS_MALFORMED
        return outcome, ""
    outcome.outcome_class = pb.OUTCOME_CLASS_SUCCESS if answer else pb.OUTCOME_CLASS_EMPTY
    return outcome, answer or ""


def retry_after_ms(text: str) -> int | None:
    """A Retry-After in seconds; None: there is none, or it is a date, which this example does not read."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return round(1000 * min(seconds, 86_400)) if math.isfinite(seconds) and seconds >= 0 else None


def report(
    stub: decision_pb2_grpc.DecisionServiceStub, decision_id: str, attempt: int, target: pb.Target, outcome: pb.Outcome
) -> None:
    """Tells what came of an attempt. Nothing is lost for the client when it cannot be told: leases run out."""
    outcome.decision_id, outcome.attempt, outcome.target_id = decision_id, attempt, target.target_id
    try:
        stub.Report(pb.ReportRequest(outcomes=[outcome]), timeout=5.0)
    except grpc.RpcError as error:
        print(f"not reported: {error.code().name}", file=sys.stderr)


def failure(target: pb.Target, outcome: pb.Outcome) -> str:
    name = pb.OutcomeClass.Name(outcome.outcome_class).removeprefix("OUTCOME_CLASS_")
    return f"{target.provider}/{target.model}: {name}, {outcome.http_status}"


def main() -> int:
    question = " ".join(sys.argv[1:]) or "What is a tide?"
    with grpc.insecure_channel(ADDRESS) as channel, httpx.Client() as client:
        try:
            print(ask(decision_pb2_grpc.DecisionServiceStub(channel), client, question))
        except grpc.RpcError as error:
            print(f"refused: {error.code().name}, {error.details()}", file=sys.stderr)
            return 1
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
