"""A client's signed keys for one round, and the digests that tie a round's parts together."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from regionfed.secagg.context import RoundContext
from regionfed.secagg.wire import pack, pack_named, pack_names, unpack, unpack_text


@dataclass(frozen=True, slots=True)
class Advertisement:
    """A client's fresh keys for one round, signed by its enrolled identity.

    mask_key: X25519 public key of the pairwise masks. share_key: X25519 public key, used once,
    under which its shares are sealed. seed_commitment: SHA-256 of its self-mask seed.
    cohort: digest of the cohort it saw, so that all members of a round saw the same.
    """

    name: str
    context: bytes
    cohort: bytes
    mask_key: bytes
    share_key: bytes
    seed_commitment: bytes
    signature: bytes = b""

    @property
    def signed_bytes(self) -> bytes:
        """What the identity signs."""
        return b"regionfed/advertisement/v1" + pack(
            (
                self.name.encode(),
                self.context,
                self.cohort,
                self.mask_key,
                self.share_key,
                self.seed_commitment,
            )
        )

    def to_bytes(self) -> bytes:
        """Packed form."""
        return pack(
            (
                self.name.encode(),
                self.context,
                self.cohort,
                self.mask_key,
                self.share_key,
                self.seed_commitment,
                self.signature,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Advertisement:
        """Undo `to_bytes`."""
        name, *rest = unpack(data, count=7)
        return cls(unpack_text(name), *rest)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the packed form, signature included."""
        return hashlib.sha256(self.to_bytes()).digest()


def roster_binding(context: RoundContext, roster: Sequence[tuple[str, bytes]]) -> bytes:
    """Digest of context and roster: masks and receipts of two rosters never meet."""
    return hashlib.sha256(
        b"regionfed/roster/v1" + pack((context.to_bytes(), pack_named(roster)))
    ).digest()


def cohort_digest(cohort: Sequence[str]) -> bytes:
    """Digest of the cohort's names in order."""
    return hashlib.sha256(b"regionfed/cohort/v1" + pack_names(cohort)).digest()


def receipt_bytes(name: str, binding: bytes) -> bytes:
    """What a client signs when it hands over a vector masked under a roster."""
    return b"regionfed/masked/v1" + pack((name.encode(), binding))


def share_binding(context: RoundContext, cohort: bytes, *, sender: str, recipient: str) -> bytes:
    """Associated data of a sealed pair of shares."""
    return pack((context.to_bytes(), cohort, sender.encode(), recipient.encode()))
