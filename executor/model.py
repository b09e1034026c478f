"""The values that travel through an execution. Seconds are floats on the loop's clock; money is USD."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MAX_ATTEMPTS = 30


class OutcomeClass(StrEnum):
    """What one attempt came to, by the contract's names."""

    SUCCESS = "SUCCESS"
    RATE_LIMITED = "RATE_LIMITED"
    QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"
    AUTH_FAILED = "AUTH_FAILED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    INVALID_REQUEST = "INVALID_REQUEST"
    CONTEXT_TOO_LONG = "CONTEXT_TOO_LONG"
    CONTENT_POLICY = "CONTENT_POLICY"
    UPSTREAM_ERROR = "UPSTREAM_ERROR"
    OVERLOADED = "OVERLOADED"
    TIMEOUT = "TIMEOUT"
    NETWORK = "NETWORK"
    MALFORMED = "MALFORMED"
    EMPTY = "EMPTY"
    INTERRUPTED = "INTERRUPTED"
    CLIENT_CANCELLED = "CLIENT_CANCELLED"
    LOCAL_CANCELLED = "LOCAL_CANCELLED"


class Shape(StrEnum):
    """Shape of a plan."""

    SINGLE = "SINGLE"
    FUSION = "FUSION"
    PIPELINE = "PIPELINE"
    AGENTIC = "AGENTIC"
    FANOUT = "FANOUT"


class Operation(StrEnum):
    """Kind of call."""

    CHAT = "CHAT"
    EMBEDDINGS = "EMBEDDINGS"


class ClientDialect(StrEnum):
    """What the client speaks, by the contract's names."""

    OPENAI_CHAT = "OPENAI_CHAT"
    OPENAI_RESPONSES = "OPENAI_RESPONSES"
    ANTHROPIC_MESSAGES = "ANTHROPIC_MESSAGES"


@dataclass(frozen=True, slots=True)
class Prices:
    """USD per 1M tokens; None where unknown."""

    input: float | None = None
    output: float | None = None
    cached_input: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One call that may be made. Window and output limit are in tokens, 0 when unknown.

    ``reasons`` says whether the model takes a reasoning effort, None when unknown.
    """

    target_id: str
    provider: str
    model: str
    connection_id: str
    base_url: str
    dialect: str = "openai"
    timeout_s: float = 120.0
    prompt: str = ""
    estimated_cost_usd: float = 0.0
    context_window: int = 0
    prices: Prices = Prices()
    max_output_tokens: int = 0
    reasons: bool | None = None


@dataclass(frozen=True, slots=True)
class RetryRules:
    """Most attempts of the request, and most retries on one target."""

    max_attempts: int = MAX_ATTEMPTS
    max_retries: int = 1


@dataclass(frozen=True, slots=True)
class Spoken:
    """A request in another form than chat completions: ``body`` as it came, and ``chat``, its translation.

    Targets of ``dialect`` may get the body as it is; empty: there are none. ``lost`` names what the translation could
    not carry, so that no other target can serve the request.
    """

    body: Mapping[str, Any]
    chat: Mapping[str, Any]
    dialect: str = ""
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """What the client asked for; ``body`` is its JSON in the form of chat completions, never changed.

    ``created`` is when it came, in Unix seconds. ``headers`` are those of the client that belong to its dialect.
    """

    decision_id: str
    body: Mapping[str, Any]
    operation: Operation = Operation.CHAT
    request_id: str = ""
    traceparent: str = ""
    effort: str = ""
    client: ClientDialect = ClientDialect.OPENAI_CHAT
    spoken: Spoken | None = None
    created: int = 0
    headers: tuple[tuple[str, str], ...] = ()

    def own_body(self, dialect: str) -> Mapping[str, Any] | None:
        """The client's own body, for a target of ``dialect`` that reads it as it is.

        None when the target speaks otherwise, and when ``body`` is no longer what the client asked for: a step of a
        plan makes its call by replacing the body.
        """
        spoken = self.spoken
        return spoken.body if spoken is not None and spoken.dialect == dialect and spoken.chat is self.body else None

    @property
    def stream(self) -> bool:
        return self.operation is Operation.CHAT and self.body.get("stream") is True

    @property
    def wants_usage(self) -> bool:
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. ``reasoning`` is part of ``output``, ``cached`` of ``input``."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    estimated: bool = False

    def cost_usd(self, prices: Prices) -> float:
        """0 when the input price is unknown; a missing output price is the input price."""
        if prices.input is None:
            return 0.0
        cached = min(self.cached, self.input)
        cached_price = prices.input if prices.cached_input is None else prices.cached_input
        output_price = prices.input if prices.output is None else prices.output
        return ((self.input - cached) * prices.input + cached * cached_price + self.output * output_price) / 1e6


@dataclass(frozen=True, slots=True)
class QuotaWindow:
    """One window of a connection's quota. ``reset_at`` is in Unix seconds, None when unknown."""

    name: str
    remaining_fraction: float
    reset_at: float | None = None
    limit_reached: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, as far as the client and the next step need it.

    ``message`` is safe to show: cut and without secrets. ``returned`` failures would be the same everywhere, so they go
    to the client at once. ``retryable`` ones may be tried again on the same target. ``client_status`` is what the
    client sees when this failure decides.
    """

    outcome_class: OutcomeClass
    message: str
    client_status: int
    http_status: int = 0
    code: str = ""
    type: str = ""
    param: str = ""
    retry_after_ms: int | None = None
    model_scoped: bool = False
    returned: bool = False
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one call to one target came to. ``place`` is the target's place in its chain; ``ended_at`` Unix seconds."""

    number: int
    place: int
    target: Target
    outcome_class: OutcomeClass
    latency_ms: int
    ended_at: float
    http_status: int = 0
    ttft_ms: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0
    finish_reason: str = ""
    quota: tuple[QuotaWindow, ...] = ()
    committed: bool = False  # bytes of its answer went to the client
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """Start of the client's answer. Header names are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]
    target: Target | None
    attempts: int
    cost_usd: float
    error_code: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes for the client. ``closing``: the last ones, and the end of the execution follows at once."""

    data: bytes
    closing: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """An attempt that ended. ``next_target_id`` is empty when none follows.

    ``decision_id`` is empty for an attempt of the decision that is carried out.
    """

    attempt: Attempt
    next_target_id: str = ""
    final: bool = True
    decision_id: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """A conversation's summary for context-relay, as JSON text."""

    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """The end: tokens of the answer, cost and number of all attempts."""

    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    attempts: int = 0


Event = Head | Chunk | Report | Summary | Done


def is_followed(event: Event) -> bool:
    """Whether the next event comes with no wait in between: after a head, after the last outcome, before the end."""
    match event:
        case Head():
            return True
        case Report():
            return event.final and not event.decision_id
        case Chunk():
            return event.closing
        case _:
            return False


Sink = Callable[[Event], Awaitable[None]]
