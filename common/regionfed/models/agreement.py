"""What two tiers must have in common besides the configuration: parameters, words and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

from regionfed.models.config import ModelConfig
from regionfed.models.flat import FlatLayout
from regionfed.tasks.spec import TaskSpec


def agreement_digest(
    layout: FlatLayout,
    config: ModelConfig,
    *,
    tasks: Sequence[TaskSpec],
    vocabulary: Callable[[], Iterable[str]],
) -> str:
    """First 16 hex digits over parameter names and shapes, task labels and, where it is built from
    the data, the word vocabulary: two vectors of equal length must also mean the same.
    """
    text = hashlib.sha256(layout.digest().encode())
    for task in tasks:
        text.update(repr((task.name, task.kind.value, task.labels, task.prefix)).encode())
    if config.tokenizer in ("words", "letters") and config.kind in ("t5", "roberta"):
        for word in vocabulary():
            text.update(word.encode() + b"\0")
    return text.hexdigest()[:16]
