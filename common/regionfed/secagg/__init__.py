"""Secure aggregation: the coordinator learns the sum of its clients' vectors and nothing finer.

Bonawitz et al. 2017 with the k-regular graph of Bell et al. 2020 above 100 clients, in three
exchanges of which the second is the training itself. Both sides are state machines over plain
messages: no transport, no clock. `docs/secure-aggregation.md` has the argument for its safety.
"""

from regionfed.secagg.advertisement import Advertisement
from regionfed.secagg.client import SecAggClient
from regionfed.secagg.client_state import ClientState
from regionfed.secagg.config import (
    SCALE_FULL_MODEL,
    SCALE_LORA,
    Block,
    SecAggConfig,
    SignedConfig,
)
from regionfed.secagg.context import RoundContext
from regionfed.secagg.coordinator import SecAggCoordinator
from regionfed.secagg.coordinator_state import CoordinatorState
from regionfed.secagg.encoding import decode, encode, signed_sum
from regionfed.secagg.graph import neighbourhood_risk, smallest_honest_sum
from regionfed.secagg.identity import DeviceKeys, Directory, Enrolment
from regionfed.secagg.messages import (
    MaskReply,
    MaskRequest,
    OpenReply,
    RoundOpen,
    UnmaskReply,
    UnmaskRequest,
)
from regionfed.secagg.operator import OperatorKey, load_operator_public
from regionfed.secagg.storage import read_private, write_private

__all__ = [
    "SCALE_FULL_MODEL",
    "SCALE_LORA",
    "Advertisement",
    "Block",
    "ClientState",
    "CoordinatorState",
    "DeviceKeys",
    "Directory",
    "Enrolment",
    "MaskReply",
    "MaskRequest",
    "OpenReply",
    "OperatorKey",
    "RoundContext",
    "RoundOpen",
    "SecAggClient",
    "SecAggConfig",
    "SecAggCoordinator",
    "SignedConfig",
    "UnmaskReply",
    "UnmaskRequest",
    "decode",
    "encode",
    "load_operator_public",
    "neighbourhood_risk",
    "read_private",
    "signed_sum",
    "smallest_honest_sum",
    "write_private",
]
