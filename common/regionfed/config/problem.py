"""What a check across sections reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A key that does not go with another one."""

    key: str
    message: str
