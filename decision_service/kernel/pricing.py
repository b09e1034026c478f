"""What a request costs on a candidate."""

from __future__ import annotations

from decision_service.kernel.model import Candidate, Outcome, Request

EXPECTED_OUTPUT_TOKENS = 256
UNKNOWN_PRICE = 1.0
PER_TOKEN = 1e-6


def prices(candidate: Candidate) -> tuple[float, float]:
    """Input and output price, USD per 1M tokens: 1.00 both ways when unknown, output as input when it alone is."""
    price_in, price_out = candidate.facts.input_price, candidate.facts.output_price
    if price_in is None:
        return UNKNOWN_PRICE, UNKNOWN_PRICE
    return price_in, price_in if price_out is None else price_out


def estimate(candidate: Candidate, request: Request) -> float:
    """Estimated cost of a request in USD; 256 output tokens where the request names no limit."""
    price_in, price_out = prices(candidate)
    output = EXPECTED_OUTPUT_TOKENS if request.max_output_tokens is None else request.max_output_tokens
    return (request.input_tokens * price_in + output * price_out) * PER_TOKEN


def actual(candidate: Candidate, outcome: Outcome) -> float:
    """Cost of what was used in USD: as reported, else from the tokens; cached input at its own price where known."""
    if outcome.cost_usd > 0.0 or not (outcome.input_tokens or outcome.output_tokens):
        return outcome.cost_usd
    price_in, price_out = prices(candidate)
    cached_price = candidate.facts.cached_input_price
    cached = min(outcome.cached_tokens, outcome.input_tokens)
    fresh = outcome.input_tokens - cached
    cached_cost = cached * (price_in if cached_price is None else cached_price)
    return (fresh * price_in + cached_cost + outcome.output_tokens * price_out) * PER_TOKEN


def expected_tokens(request: Request) -> int:
    """Input and expected output of a request."""
    output = EXPECTED_OUTPUT_TOKENS if request.max_output_tokens is None else request.max_output_tokens
    return request.input_tokens + output
