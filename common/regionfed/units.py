"""Numbers as people read them."""

from __future__ import annotations

_STEPS = ("B", "KB", "MB", "GB", "TB")


def amount(size: float) -> str:
    """Bytes with a decimal unit: 1,500,000 is '1.5 MB'."""
    step = 0
    while abs(size) >= 1000 and step < len(_STEPS) - 1:
        size /= 1000
        step += 1
    return (
        f"{size:.0f} {_STEPS[step]}"
        if step == 0 or abs(size) >= 100
        else f"{size:.1f} {_STEPS[step]}"
    )


def duration(seconds: float) -> str:
    """Seconds as '0.8 s', '42 s', '3 min 5 s' or '2 h 10 min'."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent(score: float) -> str:
    """A score between 0 and 1 in percent with one decimal."""
    return f"{100 * score:.1f}"
