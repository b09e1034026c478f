"""A service with I/O of its own, which asks OmniRoute only where to go.

    python docs/examples/direct_caller.py "What is a tide?"

Decide names the targets in order; each is called with httpx, and what came of it is reported, until one answers.
Credentials are this service's own business: a decision carries none.
"""

from __future__ import annotations

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
    408: pb.OUTCOME_CLASS_TIMEOUT,
    429: pb.OUTCOME_CLASS_RATE_LIMITED,
    529: pb.OUTCOME_CLASS_OVERLOADED,
}


def ask(stub: decision_pb2_grpc.DecisionServiceStub, client: httpx.Client, question: str) -> str:
    """The answer of the first target that gives one. Raises grpc.RpcError for a refusal, RuntimeError when all fail."""
    features = pb.RequestFeatures(input_tokens=len(question) // 4, last_user_text=question[:16_000])
    decision = stub.Decide(pb.DecideRequest(model="auto", features=features), timeout=1.0)
    targets = decision.plan.targets
    for attempt, target in enumerate(targets, start=1):
        outcome, answer = call(client, target, question)
        outcome.decision_id, outcome.attempt, outcome.target_id = decision.decision_id, attempt, target.target_id
        outcome.final = bool(answer) or attempt == len(targets)  # else the lease moves on to the next target
        stub.Report(pb.ReportRequest(outcomes=[outcome]), timeout=5.0)
        if answer:
            return answer
        name = pb.OutcomeClass.Name(outcome.outcome_class).removeprefix("OUTCOME_CLASS_")
        print(f"{target.provider}/{target.model}: {name}, {outcome.http_status}", file=sys.stderr)
    raise RuntimeError(f"none of {len(targets)} targets answered")


def call(client: httpx.Client, target: pb.Target, question: str) -> tuple[pb.Outcome, str]:
    """What one call came to, and the answer, empty when there is none."""
    key = os.environ.get(f"{target.provider.upper().replace('-', '_')}_API_KEY", "")
    started = time.monotonic()
    try:
        response = client.post(
            f"{target.base_url}/chat/completions",
            json={"model": target.model, "messages": [{"role": "user", "content": question}]},
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=target.timeout_ms / 1000,
        )
        outcome, answer = judge(response)
    except httpx.TimeoutException:
        outcome, answer = pb.Outcome(outcome_class=pb.OUTCOME_CLASS_TIMEOUT), ""
    except httpx.TransportError:
        outcome, answer = pb.Outcome(outcome_class=pb.OUTCOME_CLASS_NETWORK), ""
    outcome.latency_ms = round(1000 * (time.monotonic() - started))
    return outcome, answer


def judge(response: httpx.Response) -> tuple[pb.Outcome, str]:
    """The class of a response. A 200 is a success only with a text in it."""
    outcome = pb.Outcome(http_status=response.status_code)
    if response.status_code != 200:
        other = pb.OUTCOME_CLASS_UPSTREAM_ERROR if response.status_code >= 500 else pb.OUTCOME_CLASS_INVALID_REQUEST
        outcome.outcome_class = CLASSES.get(response.status_code, other)
        if (hint := response.headers.get("retry-after", "")).isdecimal():
            outcome.retry_after_ms = 1000 * int(hint)
        return outcome, ""
    try:
        body = response.json()
        answer = body["choices"][0]["message"]["content"]
        usage = body.get("usage") or {}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        outcome.outcome_class = pb.OUTCOME_CLASS_MALFORMED
        return outcome, ""
    outcome.outcome_class = pb.OUTCOME_CLASS_SUCCESS if answer else pb.OUTCOME_CLASS_EMPTY
    outcome.input_tokens, outcome.output_tokens = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    return outcome, answer or ""


def main() -> int:
    question = " ".join(sys.argv[1:]) or "What is a tide?"
    with grpc.insecure_channel(ADDRESS) as channel, httpx.Client() as client:
        print(ask(decision_pb2_grpc.DecisionServiceStub(channel), client, question))
    return 0


if __name__ == "__main__":
    sys.exit(main())
