"""Every message between tiers, typed, with the one place that turns it into records."""

from regionfed.messages.client import ClientScores, ClientUpdate, EvaluateOrder, TrainOrder
from regionfed.messages.diagnosis import GroupUpdates
from regionfed.messages.region import Refusal, RegionOrder, RegionScores, RegionUpdate
from regionfed.messages.wire import Vector, WireMessage, finite_vector, message_kind

__all__ = [
    "ClientScores",
    "ClientUpdate",
    "EvaluateOrder",
    "GroupUpdates",
    "Refusal",
    "RegionOrder",
    "RegionScores",
    "RegionUpdate",
    "TrainOrder",
    "Vector",
    "WireMessage",
    "finite_vector",
    "message_kind",
]
