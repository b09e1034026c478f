"""A router strategy of one's own: the cheapest of those that are almost as good as the best."""

from collections.abc import Sequence

from decision_service.plugins import Choice, PoolMember, SelectContext

ALMOST = 0.05


class Thrifty:
    name = "thrifty"
    description = "The cheapest candidate whose score is within 0.05 of the best."

    def select(self, pool: Sequence[PoolMember], context: SelectContext) -> Choice:
        best = max(member.score for member in pool)
        good = [member for member in pool if member.score >= best - ALMOST]
        pick = min(good, key=lambda member: member.estimated_cost_usd)
        return Choice(pick.candidate, f"the cheapest of {len(good)} that are good enough", pick.score)
