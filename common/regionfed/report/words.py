"""What the figures of a report mean, in words."""

from __future__ import annotations

from regionfed.run.records import PersonaliseRecord

VERDICTS = {
    "interior": "the optimum lies inside the searched interval",
    "lower": "the search collapsed to its lower end: the number is the resolution of the search, "
    "not an optimum",
    "upper": "the loss still falls at the upper end: the optimum lies beyond it, so widen the "
    "interval",
    "rejected": "nothing beats serving no regional part, so none is served",
    "fixed": "rho is not searched, only checked against none",
}

LEVELS = {
    "global": "the global model",
    "regional": "the global model with the region's part",
    "user": "the regional model with each user's own part",
    "local": "each client trained alone",
}


def verdict(record: PersonaliseRecord) -> str:
    """The verdict of a rho search with its meaning, never a bare number."""
    if record.verdict is None:
        return "no search" if record.served else "not served"
    return f"{record.verdict}: {VERDICTS.get(record.verdict, 'see the log')}"


def strength(record: PersonaliseRecord) -> str:
    """rho as it was served."""
    if record.rho is None:
        return ""
    return f"{record.rho:.3g}" if record.served else f"0 (best found: {record.rho:.3g})"
