"""What a device must remember between the messages of a run; secret, never sent.

Keep it in a file of mode 0600 (`storage.write_private`), written BEFORE the reply leaves.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from regionfed.secagg.advertisement import Advertisement
from regionfed.secagg.context import RoundContext
from regionfed.secagg.errors import MalformedMessage

_VERSION = 1
# The next round may be opened while the present one still waits to be unmasked.
LIVE_ROUNDS = 2


class Stage(StrEnum):
    """Where a client stands in a round; it only ever moves forward."""

    OPENED = "opened"
    MASKED = "masked"
    UNMASKED = "unmasked"


@dataclass(frozen=True, slots=True)
class RoundSecrets:
    """One open round. After the unmask reply only context and stage are left."""

    context: RoundContext
    stage: Stage
    cohort: tuple[str, ...] = ()
    advertisement: bytes = b""
    mask_private: bytes = field(default=b"", repr=False)
    seed: bytes = field(default=b"", repr=False)
    own_shares: bytes = field(default=b"", repr=False)
    roster: tuple[tuple[str, bytes], ...] = ()
    neighbours: tuple[Advertisement, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientState:
    """Memory of one client in one run of one region.

    configuration: canonical bytes of the configuration pinned at the first round, or empty.
    newest: highest round opened so far, -1 before the first; `nonces` are those it was opened
    with. answered: highest round whose shares were handed out, -1 before the first.
    """

    run: str
    region: str
    configuration: bytes = b""
    newest: int = -1
    nonces: tuple[bytes, ...] = ()
    answered: int = -1
    rounds: tuple[RoundSecrets, ...] = ()

    def with_round(self, secrets: RoundSecrets) -> ClientState:
        """The state with this round put in, or replaced; the oldest beyond two is forgotten."""
        others = [kept for kept in self.rounds if kept.context.round != secrets.context.round]
        rounds = sorted([*others, secrets], key=lambda kept: kept.context.round)
        return replace(self, rounds=tuple(rounds[-LIVE_ROUNDS:]))

    def to_bytes(self) -> bytes:
        """JSON with hex for bytes."""
        table = {
            "version": _VERSION,
            "run": self.run,
            "region": self.region,
            "configuration": self.configuration.hex(),
            "newest": self.newest,
            "nonces": [nonce.hex() for nonce in self.nonces],
            "answered": self.answered,
            "rounds": [_round_to_json(secrets) for secrets in self.rounds],
        }
        return json.dumps(table).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ClientState:
        """Undo `to_bytes`; raises MalformedMessage for anything else."""
        try:
            table = json.loads(data)
            if table["version"] != _VERSION:
                raise MalformedMessage(
                    f"client state of version {table['version']}, this is {_VERSION}"
                )
            return cls(
                run=table["run"],
                region=table["region"],
                configuration=bytes.fromhex(table["configuration"]),
                newest=table["newest"],
                nonces=tuple(bytes.fromhex(nonce) for nonce in table["nonces"]),
                answered=table["answered"],
                rounds=tuple(_round_from_json(secrets) for secrets in table["rounds"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise MalformedMessage(
                "the secure-aggregation state of this device is damaged; delete it, the device "
                "then sits out the present round"
            ) from error


def _round_to_json(secrets: RoundSecrets) -> dict[str, Any]:
    return {
        "context": secrets.context.to_bytes().hex(),
        "stage": secrets.stage.value,
        "cohort": list(secrets.cohort),
        "advertisement": secrets.advertisement.hex(),
        "mask_private": secrets.mask_private.hex(),
        "seed": secrets.seed.hex(),
        "own_shares": secrets.own_shares.hex(),
        "roster": [[name, digest.hex()] for name, digest in secrets.roster],
        "neighbours": [entry.to_bytes().hex() for entry in secrets.neighbours],
    }


def _round_from_json(table: dict[str, Any]) -> RoundSecrets:
    return RoundSecrets(
        context=RoundContext.from_bytes(bytes.fromhex(table["context"])),
        stage=Stage(table["stage"]),
        cohort=tuple(table["cohort"]),
        advertisement=bytes.fromhex(table["advertisement"]),
        mask_private=bytes.fromhex(table["mask_private"]),
        seed=bytes.fromhex(table["seed"]),
        own_shares=bytes.fromhex(table["own_shares"]),
        roster=tuple((name, bytes.fromhex(digest)) for name, digest in table["roster"]),
        neighbours=tuple(
            Advertisement.from_bytes(bytes.fromhex(entry)) for entry in table["neighbours"]
        ),
    )
