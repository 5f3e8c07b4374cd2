"""What every key, share and signature of a round is bound to."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from regionfed.secagg.errors import MalformedMessage, WrongContext
from regionfed.secagg.wire import pack, pack_int, unpack, unpack_int, unpack_text

NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class RoundContext:
    """One attempt at one round of one region in one run (privacy section 5).

    `nonce` tells attempts apart: a round that aborted may be opened again under a new one.
    `configuration` is the digest of the signed configuration.
    """

    run: str
    region: str
    round: int
    nonce: bytes
    configuration: bytes

    def __post_init__(self) -> None:
        if not 0 <= self.round < 1 << 64:
            raise MalformedMessage(f"round {self.round} is not in [0, 2^64)")
        if len(self.nonce) != NONCE_BYTES or len(self.configuration) != 32:
            raise MalformedMessage(
                f"a round has a nonce of {NONCE_BYTES} bytes and a configuration digest of 32, "
                f"got {len(self.nonce)} and {len(self.configuration)}"
            )

    @classmethod
    def fresh(cls, *, run: str, region: str, round: int, configuration: bytes) -> RoundContext:
        """Context of a new attempt, with a random nonce."""
        return cls(run, region, round, secrets.token_bytes(NONCE_BYTES), configuration)

    def to_bytes(self) -> bytes:
        """Canonical bytes: what is hashed, signed and sent."""
        return pack(
            (
                self.run.encode(),
                self.region.encode(),
                pack_int(self.round),
                self.nonce,
                self.configuration,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundContext:
        """Undo `to_bytes`; raises MalformedMessage."""
        run, region, round_number, nonce, configuration = unpack(data, count=5)
        return cls(
            unpack_text(run),
            unpack_text(region),
            unpack_int(round_number),
            nonce,
            configuration,
        )

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes."""
        return hashlib.sha256(b"regionfed/context/v1" + self.to_bytes()).digest()

    def require(self, other: RoundContext) -> None:
        """Raise WrongContext, with the first field that differs, unless `other` is the same."""
        for field in ("run", "region", "round", "nonce", "configuration"):
            mine, theirs = getattr(self, field), getattr(other, field)
            if mine != theirs:
                shown = (
                    ""
                    if isinstance(mine, bytes)
                    else f": this round has {mine!r}, the message {theirs!r}"
                )
                raise WrongContext(f"message of another {field}{shown}; discard it")
