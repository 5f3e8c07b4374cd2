"""What the coordinator keeps of a round beside the running sum; it holds no client's secret
until the survivors hand out their shares."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum

from regionfed.secagg.advertisement import Advertisement
from regionfed.secagg.config import SecAggConfig, SignedConfig
from regionfed.secagg.context import RoundContext
from regionfed.secagg.errors import MalformedMessage

_VERSION = 1


class CoordinatorStage(StrEnum):
    """Where the round stands; it only ever moves forward."""

    OPENING = "opening"
    MASKING = "masking"
    UNMASKING = "unmasking"
    DONE = "done"


@dataclass(slots=True)
class CoordinatorState:
    """Everything but the sum: kilobytes per client, independent of the vector's length.

    sealed: by sender, then recipient. receipts: of those whose vector is in the sum. shares: by
    owner, then share index; of the seed for survivors, of the mask key for dropped clients.
    """

    context: RoundContext
    signed: SignedConfig
    cohort: tuple[str, ...]
    stage: CoordinatorStage = CoordinatorStage.OPENING
    advertisements: dict[str, Advertisement] = field(default_factory=dict)
    sealed: dict[str, dict[str, bytes]] = field(default_factory=dict, repr=False)
    receipts: dict[str, bytes] = field(default_factory=dict)
    answered: list[str] = field(default_factory=list)
    shares: dict[str, dict[int, bytes]] = field(default_factory=dict, repr=False)

    def to_bytes(self) -> bytes:
        """JSON with hex for bytes."""
        table = {
            "version": _VERSION,
            "context": self.context.to_bytes().hex(),
            "configuration": self.signed.config.to_bytes().hex(),
            "signature": self.signed.signature.hex(),
            "cohort": list(self.cohort),
            "stage": self.stage.value,
            "advertisements": [entry.to_bytes().hex() for entry in self.advertisements.values()],
            "sealed": {
                sender: {recipient: data.hex() for recipient, data in row.items()}
                for sender, row in self.sealed.items()
            },
            "receipts": {name: data.hex() for name, data in self.receipts.items()},
            "answered": self.answered,
            "shares": {
                owner: {str(index): data.hex() for index, data in row.items()}
                for owner, row in self.shares.items()
            },
        }
        return json.dumps(table).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> CoordinatorState:
        """Undo `to_bytes`; raises MalformedMessage for anything else."""
        try:
            table = json.loads(data)
            if table["version"] != _VERSION:
                raise MalformedMessage(
                    f"coordinator state of version {table['version']}, this is {_VERSION}"
                )
            entries = [
                Advertisement.from_bytes(bytes.fromhex(entry)) for entry in table["advertisements"]
            ]
            return cls(
                context=RoundContext.from_bytes(bytes.fromhex(table["context"])),
                signed=SignedConfig(
                    SecAggConfig.from_bytes(bytes.fromhex(table["configuration"])),
                    bytes.fromhex(table["signature"]),
                ),
                cohort=tuple(table["cohort"]),
                stage=CoordinatorStage(table["stage"]),
                advertisements={entry.name: entry for entry in entries},
                sealed={
                    sender: {recipient: bytes.fromhex(data) for recipient, data in row.items()}
                    for sender, row in table["sealed"].items()
                },
                receipts={name: bytes.fromhex(data) for name, data in table["receipts"].items()},
                answered=list(table["answered"]),
                shares={
                    owner: {int(index): bytes.fromhex(data) for index, data in row.items()}
                    for owner, row in table["shares"].items()
                },
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MalformedMessage(
                "the saved secure-aggregation round is damaged; start the round again"
            ) from error
