"""What upstreams say when they fail: codes, types and wordings, each with the class that it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from executor.model import OutcomeClass

C = OutcomeClass

_WORDS: Mapping[OutcomeClass, str] = MappingProxyType(
    {
        C.CONTEXT_TOO_LONG: "context_length_exceeded exceed_context_size_error prompt_too_long "
        "model_max_prompt_tokens_exceeded 1261",
        C.CONTENT_POLICY: "content_filter content_policy_violation content_policy responsibleaipolicyviolation "
        "data_inspection_failed moderation_blocked 1301",
        C.QUOTA_EXHAUSTED: "insufficient_quota quota_exceeded quota_exhausted billing_hard_limit_reached "
        "insufficient_balance insufficient_credits payment_required billing_error 1113 1304 1308",
        C.OVERLOADED: "overloaded overloaded_error engine_overloaded engine_overloaded_error model_overloaded 529",
        C.RATE_LIMITED: "rate_limit rate_limited rate_limit_error rate_limit_exceeded rate_limit_reached_error "
        "too_many_requests throttling throttled resource_exhausted 429 1302 1303 1305",
        C.AUTH_FAILED: "invalid_api_key authentication_error invalid_authentication unauthorized permission_error "
        "1000 1001 1002 1003 1004",
        C.MODEL_NOT_FOUND: "model_not_found model_not_supported model_not_available 1211",
    }
)

# Error codes and types, in lower case, that say it all whatever the status.
CODES: Mapping[str, OutcomeClass] = MappingProxyType(
    {word: outcome_class for outcome_class, words in _WORDS.items() for word in words.split()}
)

# A code that ``faults`` makes of the name of a limit. It outweighs the text, which calls every limit a quota.
PER_MINUTE = "rate_limited_per_minute"

# Codes and types of a request that is wrong in itself.
REQUEST_CODES = frozenset(
    (
        "invalid_value invalid_type invalid_json invalid_request missing_required_parameter unknown_parameter "
        "invalid_prompt invalid_image invalid_schema integer_above_max_value integer_below_min_value json_invalid "
        "string_above_max_length array_above_max_length empty_array invalid_request_error missing 1210 1214"
    ).split()
)

ADDRESS = re.compile(r"https?://\S+")

RATE = re.compile(
    r"(?i)rate.?limit|too many requests|(requests|tokens) per (second|min|hour|day)|throttl|\b[rt]pm\b|速率限制"
)
QUOTA = re.compile(
    r"(?i)insufficient[ _](quota|balance|credit|fund)|exceeded your (current|monthly|daily) quota|"
    r"quota (has been |is |was )?(exceeded|exhausted|reached|used up)|out of (credit|quota)|credit balance|no credits|"
    r"(daily|weekly|monthly|usage|spending) (usage |spend )?limit|billing|payment required|余额不足|欠费|配额"
)
CONTEXT = re.compile(
    r"(?i)max(imum)?[ _]context|context[ _-]?(length|window|size|limit)|(prompt|input) is too long|"
    r"too many (input )?tokens|input token count|reduce the length|"
    r"exceeds? the (model'?s? )?(maximum )?(number of )?(input )?tokens"
)
POLICY = re.compile(
    r"(?i)content[ _](management |safety )?(policy|filter)|safety (system|polic)|flagged (by|as|for)|moderation"
)
OVERLOAD = re.compile(
    r"(?i)overload|(at|over|out of) capacity|capacity (is )?exceeded|(model|server|engine) is (currently )?busy"
)
AUTH = re.compile(
    r"(?i)(invalid|incorrect|missing|expired|revoked).{0,20}(api[ _-]?key|token|credential)|api[ _-]?key not valid"
)
MODEL = re.compile(
    r"(?i)model\b.{0,120}?(not found|does ?n[o']t exist|not supported|unsupported|not available|unavailable|deprecated|"
    r"decommissioned)|(unknown|invalid|no such|unsupported|unrecognized) model|not have access to (the )?model"
)

# In order: the first that fits. A rate limit that mentions billing is a rate limit.
TEXTS: tuple[tuple[OutcomeClass, re.Pattern[str]], ...] = (
    (C.RATE_LIMITED, RATE),
    (C.QUOTA_EXHAUSTED, QUOTA),
    (C.CONTEXT_TOO_LONG, CONTEXT),
    (C.CONTENT_POLICY, POLICY),
    (C.OVERLOADED, OVERLOAD),
    (C.AUTH_FAILED, AUTH),
    (C.MODEL_NOT_FOUND, MODEL),
)

# A feature or size that this model lacks and another one may well have: no fault of the request.
FEATURE = re.compile(r"(?i)(does|do|is|are) ?n[o']t (currently )?support|unsupported|model supports at most")
SHAPE = re.compile(
    r"(?i)invalid (json|type|value|request body|schema)|is required|required propert|field required|must be|"
    r"(unknown|unrecognized|unexpected|extra|missing)( required| request)? (parameter|field|argument|input|propert)|"
    r"validation error|(failed|unable|could not) to (parse|decode|deserialize)|malformed|not valid json|"
    r"should be a valid"
)
NAMES_MODEL = re.compile(
    r"(?i)\b(for|on|this|of|the) (the )?model\b|per[ _-]?model|\bmodel .{0,60}(limit|quota|overload|capacity|busy)"
)
