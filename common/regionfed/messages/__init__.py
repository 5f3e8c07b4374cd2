"""Every message between tiers, typed, with the one place that turns it into records."""

from regionfed.messages.client import ClientScores, ClientUpdate, EvaluateOrder, Kept, TrainOrder
from regionfed.messages.diagnosis import GroupUpdates
from regionfed.messages.region import Refusal, RegionOrder, RegionScores, RegionUpdate
from regionfed.messages.summed import (
    SecureAnswer,
    SecureOrder,
    SummedVector,
    pack_step,
    unpack_step,
)
from regionfed.messages.wire import MaskedVector, Vector, WireMessage, finite_vector, message_kind

__all__ = [
    "ClientScores",
    "ClientUpdate",
    "EvaluateOrder",
    "GroupUpdates",
    "Kept",
    "MaskedVector",
    "Refusal",
    "RegionOrder",
    "RegionScores",
    "RegionUpdate",
    "SecureAnswer",
    "SecureOrder",
    "SummedVector",
    "TrainOrder",
    "Vector",
    "WireMessage",
    "finite_vector",
    "message_kind",
    "pack_step",
    "unpack_step",
]
