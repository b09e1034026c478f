"""The values that the kernel works with. Frozen, slotted, free of I/O.

Times are integer milliseconds since the Unix epoch; durations are milliseconds; money is USD; prices are USD per one
million tokens. ``None`` means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from decision_service.kernel.dice import Rng

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class ProviderClass(StrEnum):
    """How a provider's connections authenticate; sets breaker and cooldown parameters."""

    API_KEY = "api_key"
    OAUTH = "oauth"
    LOCAL = "local"


class EconomicTier(StrEnum):
    """What a model costs, in three steps. Not the account's tier."""

    FREE = "free"
    CHEAP = "cheap"
    PREMIUM = "premium"


class Operation(StrEnum):
    """Kind of call."""

    CHAT = "CHAT"
    EMBEDDINGS = "EMBEDDINGS"


class Shape(StrEnum):
    """Shape of a plan's calls."""

    SINGLE = "single"
    FUSION = "fusion"
    PIPELINE = "pipeline"
    AGENTIC = "agentic"
    FANOUT = "fanout"


class OutcomeClass(StrEnum):
    """What one attempt came to."""

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


# What the operator and the catalogue know


@dataclass(frozen=True, slots=True)
class Provider:
    """A vendor or server. ``models`` are its catalogue models, in catalogue order."""

    id: str
    provider_class: ProviderClass = ProviderClass.API_KEY
    enabled: bool = True
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Connection:
    """One account with a provider.

    ``models`` are the models that a channel's pool gets from it (empty: the provider's first catalogue model).
    ``closed``: it serves no others, where another connection of its provider lists what is asked for.
    ``usable`` says that a credential is present; ``usable_until`` is the end of an OAuth token that cannot be renewed.
    ``standby``: it serves channels only while no other connection is usable.
    """

    id: str
    provider: str
    enabled: bool = True
    usable: bool = True
    usable_until: int | None = None
    models: tuple[str, ...] = ()
    closed: bool = False
    account_tier: str = "standard"
    standby: bool = False


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of one provider's model. ``fitness`` is an operator's word by task type, 0..1."""

    input_price: float | None = None
    output_price: float | None = None
    cached_input_price: float | None = None
    context_window: int | None = None
    max_output: int | None = None
    has: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()
    hidden: bool = False
    fitness: Mapping[str, float] = field(default_factory=dict)


UNKNOWN_FACTS = ModelFacts()


@dataclass(frozen=True, slots=True)
class Candidate:
    """Provider x model x connection that may serve a request. ``id`` reads ``provider/model@connection``.

    ``fitness`` is what is known of the model by task type, from all sources; empty: nothing.
    """

    provider: str
    model: str
    connection: str
    provider_class: ProviderClass = ProviderClass.API_KEY
    account_tier: str = "standard"
    facts: ModelFacts = UNKNOWN_FACTS
    economic_tier: EconomicTier = EconomicTier.PREMIUM
    fitness: Mapping[str, float] = field(default_factory=dict)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", f"{self.provider}/{self.model}@{self.connection}")


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a combo. ``connection`` None: the provider's whole account pool. ``combo``: a combo-ref."""

    id: str
    provider: str = ""
    model: str = ""
    connection: str | None = None
    weight: float = 0.0
    prompt: str = ""
    label: str = ""
    max_concurrent: int | None = None
    combo: str = ""


@dataclass(frozen=True, slots=True)
class SlaTargets:
    """Targets of the sla-aware router strategy. ``max_cost`` is USD per 1M tokens, None: no limit."""

    p95_ms: float = 2000.0
    max_error_rate: float = 0.05
    max_cost: float | None = None
    hard: bool = False


@dataclass(frozen=True, slots=True)
class FusionTuning:
    """Timing of a fusion panel."""

    min_panel: int = 2
    straggler_grace_ms: int = 8_000
    panel_hard_timeout_ms: int = 90_000


@dataclass(frozen=True, slots=True)
class ComboConfig:
    """A combo's config, parsed; defaults as the specification's section 17 has them."""

    router_strategy: str = "rules"
    weights: Mapping[str, float] | None = None
    candidate_pool: frozenset[str] = frozenset()
    mode_pack: str | None = None
    budget_cap: float | None = None
    budget_fallback: str = "cheapest"
    exploration_rate: float = 0.05
    sla: SlaTargets = SlaTargets()
    nadir_base_url: str = ""
    nadir_timeout_ms: int = 2_000
    lkgp_enabled: bool = True
    lkgp_scope: str = "combo"
    sticky_round_robin_limit: int | None = None
    sticky_weighted_limit: int = 1
    connection_aware_expansion: bool | None = None
    disable_session_stickiness: bool | None = None
    strict_random_deck: bool = False
    quota_share: bool = False
    quota_weighted_floor_percent: float = 1.0
    reset_window_windows: tuple[str, ...] = ("weekly",)
    handoff_threshold: float = 0.85
    handoff_model: str | None = None
    judge_model: str | None = None
    fusion: FusionTuning = FusionTuning()
    agentic_enabled: bool = False
    max_tool_rounds: int = 8
    complexity_aware_routing: bool = False
    target_timeout_ms: int = 120_000
    max_attempts: int = 30
    max_retries: int = 1
    max_concurrent: int = 0
    min_context_window: int | None = None


@dataclass(frozen=True, slots=True)
class Channel:
    """A resolved `auto` channel. ``category`` and ``tier`` name the preference filters to apply."""

    name: str
    pack: str = "balanced"
    exploration_rate: float = 0.05
    category: str = ""
    tier: str = ""
    fanout: bool = False


@dataclass(frozen=True, slots=True)
class Combo:
    """A routing policy, stored or virtual. ``channel`` is set for virtual `auto` combos."""

    name: str
    strategy: str
    steps: tuple[Step, ...] = ()
    config: ComboConfig = ComboConfig()
    version: int = 1
    channel: Channel | None = None


@dataclass(frozen=True, slots=True)
class ModelMapping:
    """A glob over the model string that leads to a combo."""

    pattern: str
    combo: str
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Override:
    """What one key changes in one channel. Candidates are named by id."""

    excluded: frozenset[str] = frozenset()
    multipliers: Mapping[str, float] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    strategy: str = ""


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """What a key may use, and how much. Empty: everything. Limits of 0: none."""

    id: str
    enabled: bool = True
    allowed_models: tuple[str, ...] = ()
    allowed_connections: frozenset[str] = frozenset()
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    usd_per_day: float = 0.0
    usd_per_month: float = 0.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the whole service. ``None``: unset."""

    hide_paid_models: bool = False
    combo_sticky_round_robin_limit: int | None = None
    sticky_round_robin_limit: int | None = None
    connection_aware_expansion: bool = False
    disable_session_stickiness: bool = False
    prompt_cache_affinity_enabled: bool = True
    combo_ref_max_depth: int = 3
    chaos_max_panel: int = 5


# A request and what comes of it


@dataclass(frozen=True, slots=True)
class Controls:
    """The client's controls for one request, as sent; read by ``controls.read_controls``."""

    mode: str = ""
    budget_usd: float = 0.0
    budget_fallback: str = ""
    min_context_tokens: int = 0
    effort: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One request for a decision. ``specificity`` is 0..100; token counts are estimates."""

    model: str
    api_key_id: str = ""
    session_id: str = ""
    session_explicit: bool = False
    operation: Operation = Operation.CHAT
    input_tokens: int = 0
    least_input_tokens: int | None = None
    max_output_tokens: int | None = None
    stream: bool = False
    tool_count: int = 0
    specificity: float | None = None
    has_tools: bool = False
    tool_choice_none: bool = False
    needs_vision: bool = False
    needs_audio: bool = False
    needs_structured_output: bool = False
    has_reasoning_params: bool = False
    is_tool_continuation: bool = False
    tool_rounds: int = 0
    tool_results_before_last_user: int = 0
    last_user_chars: int = 0
    context_tokens_to_last_user: int = 0
    task_type: str = ""
    last_user_text: str = ""
    prompt_cache_key: str = ""
    prompt_prefix_hash: str = ""
    controls: Controls = Controls()


@dataclass(frozen=True, slots=True)
class Turn:
    """Time and dice of one decision."""

    now: int
    seed: int
    rng: Rng


@dataclass(frozen=True, slots=True)
class Advice:
    """What a remote router answered: a model of the pool, or why there is no choice.

    ``bucket`` is what it takes the prompt for, in its own word; ``confidence`` is 0..1, None where it told none.
    """

    model: str = ""
    failure: str = ""
    bucket: str = ""
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a candidate cannot be chosen. ``until`` is an instant; ``None``: unknown or never."""

    filter: str
    reason: str
    until: int | None = None
    rate_limited: bool = False


@dataclass(frozen=True, slots=True)
class QuotaWindow:
    """One quota window of a connection. ``remaining`` is 0..1; ``reset_at`` an instant, ``None``: unknown."""

    name: str
    remaining: float
    reset_at: int | None = None
    limit_reached: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt came to. ``at`` is when it ended."""

    decision_id: str
    attempt: int
    target_id: str
    outcome_class: OutcomeClass
    at: int
    http_status: int = 0
    latency_ms: int = 0
    ttft_ms: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0
    retry_after_ms: int | None = None
    model_scoped: bool = False
    next_target_id: str = ""
    finish_reason: str = ""
    final: bool = False
    usage_estimated: bool = False
    quota: tuple[QuotaWindow, ...] = ()
    provider: str = ""
    model: str = ""
    connection: str = ""
    api_key_id: str = ""
    hand_off_summary: str = ""


class Refused(Exception):
    """The decision is a refusal; ``reason`` is one of the closed list. The shell maps it to a status.

    ``retry_at`` is the instant of the earliest useful retry. ``rate_limited``: every target was stopped by a limit.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        field: str = "",
        retry_at: int | None = None,
        rate_limited: bool = False,
        rejected: Mapping[str, Rejection] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field
        self.retry_at = retry_at
        self.rate_limited = rate_limited
        self.rejected = rejected
