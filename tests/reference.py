"""Slow, obvious twins of every fast path. Clear first: no blocking, no tricks."""


def paper_impact(citations: list[int], top_venue: list[bool], eligible: list[bool]) -> list[float]:
    """h = 0.6 c + 0.4 v of each paper; -1 where not eligible."""
    known = [max(c, 0) for c, e in zip(citations, eligible, strict=True) if e]
    impact: list[float] = []
    for count, top, is_eligible in zip(citations, top_venue, eligible, strict=True):
        if not is_eligible:
            impact.append(-1.0)
            continue
        spread = max(known) - min(known)
        share = (max(count, 0) - min(known)) / spread if spread else 0.0
        impact.append(0.6 * share + 0.4 * (1.0 if top else 0.0))
    return impact
