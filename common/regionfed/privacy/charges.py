"""From a quantity that is released to the event that the ledger is charged."""

from __future__ import annotations

from regionfed.privacy.events import (
    ClipBit,
    ConflictSketch,
    DatasetSize,
    EvaluationMetrics,
    IntentHistogram,
    LookAheadUpdate,
    LossGrid,
    Noise,
    NoisedRelease,
    TrainingUpdate,
)
from regionfed.privacy.quantities import Quantity


def release_event(
    quantity: Quantity, *, round: int, multiplier: float, noise: Noise, bands: int, length: int
) -> NoisedRelease:
    """The event of one release of `length` values; `bands` of correlated noise, for an update."""
    match quantity:
        case Quantity.UPDATE:
            return TrainingUpdate(
                round=round, noise_multiplier=multiplier, noise=noise, bands=bands
            )
        case Quantity.LOOK_AHEAD:
            return LookAheadUpdate(round=round, noise_multiplier=multiplier, noise=noise)
        case Quantity.SKETCH:
            return ConflictSketch(
                round=round, noise_multiplier=multiplier, noise=noise, width=length
            )
        case Quantity.CLIP_BIT:
            return ClipBit(round=round, noise_multiplier=multiplier, noise=noise)
        case Quantity.LABELS:
            return IntentHistogram(round=round, noise_multiplier=multiplier, noise=noise)
        case Quantity.SIZE:
            return DatasetSize(round=round, noise_multiplier=multiplier, noise=noise)
        case Quantity.LOSSES:
            # Differences to the loss at the first point.
            return LossGrid(
                round=round, noise_multiplier=multiplier, noise=noise, points=length + 1
            )
        case Quantity.METRICS:
            return EvaluationMetrics(
                round=round, noise_multiplier=multiplier, noise=noise, values=length
            )
