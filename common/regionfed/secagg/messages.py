"""The six messages of a round, each a frozen record and a flat table of scalars on the wire.

    exchange 1   RoundOpen     ->   OpenReply      fresh keys, sealed shares
    exchange 2   MaskRequest   ->   MaskReply      the masked vector travels beside the reply
    exchange 3   UnmaskRequest ->   UnmaskReply    the shares that open the sum

`to_fields` gives `dict[str, bytes | str | int | float]`; `from_fields` raises MalformedMessage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regionfed.secagg.advertisement import Advertisement
from regionfed.secagg.config import SecAggConfig, SignedConfig
from regionfed.secagg.context import RoundContext
from regionfed.secagg.errors import MalformedMessage
from regionfed.secagg.wire import (
    Fields,
    Scalar,
    pack,
    pack_int,
    pack_named,
    pack_names,
    take,
    unpack,
    unpack_int,
    unpack_named,
    unpack_names,
)


def _table(kind: str, context: RoundContext, **fields: Scalar) -> dict[str, Scalar]:
    return {"message": kind, "context": context.to_bytes(), **fields}


def _context(kind: str, fields: Fields) -> RoundContext:
    if take(fields, "message", str) != kind:
        raise MalformedMessage(f"expected the message {kind}, got {fields['message']!r}")
    return RoundContext.from_bytes(take(fields, "context", bytes))


@dataclass(frozen=True, slots=True)
class RoundOpen:
    """Coordinator to client: join this cohort (sorted names) under this configuration."""

    KIND = "secagg/open/v1"

    context: RoundContext
    signed: SignedConfig
    cohort: tuple[str, ...]
    threshold: int

    def to_fields(self) -> dict[str, Scalar]:
        """Flat table for the wire."""
        return _table(
            self.KIND,
            self.context,
            configuration=self.signed.config.to_bytes(),
            signature=self.signed.signature,
            cohort=pack_names(self.cohort),
            threshold=self.threshold,
        )

    @classmethod
    def from_fields(cls, fields: Fields) -> RoundOpen:
        """Undo `to_fields`."""
        context = _context(cls.KIND, fields)
        config = SecAggConfig.from_bytes(take(fields, "configuration", bytes))
        return cls(
            context,
            SignedConfig(config, take(fields, "signature", bytes)),
            unpack_names(take(fields, "cohort", bytes)),
            take(fields, "threshold", int),
        )


@dataclass(frozen=True, slots=True)
class OpenReply:
    """Client to coordinator: its keys, and for each holder a sealed pair of shares."""

    KIND = "secagg/opened/v1"

    context: RoundContext
    advertisement: Advertisement
    sealed: tuple[tuple[str, bytes], ...]

    def to_fields(self) -> dict[str, Scalar]:
        """Flat table for the wire."""
        return _table(
            self.KIND,
            self.context,
            advertisement=self.advertisement.to_bytes(),
            sealed=pack_named(self.sealed),
        )

    @classmethod
    def from_fields(cls, fields: Fields) -> OpenReply:
        """Undo `to_fields`."""
        return cls(
            _context(cls.KIND, fields),
            Advertisement.from_bytes(take(fields, "advertisement", bytes)),
            unpack_named(take(fields, "sealed", bytes)),
        )


@dataclass(frozen=True, slots=True)
class MaskRequest:
    """Coordinator to client, with the training message: mask against this roster.

    terms: the round's terms in plain JSON. roster: every member in cohort order with the digest
    of its advertisement. advertisements: those of the recipient and of its neighbours.
    """

    KIND = "secagg/mask/v1"

    context: RoundContext
    terms: bytes
    roster: tuple[tuple[str, bytes], ...]
    advertisements: tuple[Advertisement, ...]

    def to_fields(self) -> dict[str, Scalar]:
        """Flat table for the wire."""
        return _table(
            self.KIND,
            self.context,
            terms=self.terms,
            roster=pack_named(self.roster),
            advertisements=pack(entry.to_bytes() for entry in self.advertisements),
        )

    @classmethod
    def from_fields(cls, fields: Fields) -> MaskRequest:
        """Undo `to_fields`."""
        return cls(
            _context(cls.KIND, fields),
            take(fields, "terms", bytes),
            unpack_named(take(fields, "roster", bytes)),
            tuple(
                Advertisement.from_bytes(entry)
                for entry in unpack(take(fields, "advertisements", bytes))
            ),
        )


@dataclass(frozen=True, slots=True)
class MaskReply:
    """Client to coordinator, beside the masked vector: a signed receipt for the roster."""

    KIND = "secagg/masked/v1"

    context: RoundContext
    name: str
    receipt: bytes

    def to_fields(self) -> dict[str, Scalar]:
        """Flat table for the wire."""
        return _table(self.KIND, self.context, name=self.name, receipt=self.receipt)

    @classmethod
    def from_fields(cls, fields: Fields) -> MaskReply:
        """Undo `to_fields`."""
        return cls(
            _context(cls.KIND, fields), take(fields, "name", str), take(fields, "receipt", bytes)
        )


@dataclass(frozen=True, slots=True)
class UnmaskRequest:
    """Coordinator to survivor: who survived, who dropped, the proof, and the sealed shares.

    receipts and sealed: from the recipient's neighbours only.
    """

    KIND = "secagg/unmask/v1"

    context: RoundContext
    survivors: tuple[str, ...]
    dropped: tuple[str, ...]
    receipts: tuple[tuple[str, bytes], ...]
    sealed: tuple[tuple[str, bytes], ...]

    def to_fields(self) -> dict[str, Scalar]:
        """Flat table for the wire."""
        return _table(
            self.KIND,
            self.context,
            survivors=pack_names(self.survivors),
            dropped=pack_names(self.dropped),
            receipts=pack_named(self.receipts),
            sealed=pack_named(self.sealed),
        )

    @classmethod
    def from_fields(cls, fields: Fields) -> UnmaskRequest:
        """Undo `to_fields`."""
        return cls(
            _context(cls.KIND, fields),
            unpack_names(take(fields, "survivors", bytes)),
            unpack_names(take(fields, "dropped", bytes)),
            unpack_named(take(fields, "receipts", bytes)),
            unpack_named(take(fields, "sealed", bytes)),
        )


@dataclass(frozen=True, slots=True)
class Share:
    """One share in the clear: of `owner`'s seed (it survived) or of its mask key (it dropped)."""

    owner: str
    index: int
    value: bytes


@dataclass(frozen=True, slots=True)
class UnmaskReply:
    """Survivor to coordinator: seed shares of survivors, key shares of dropped clients."""

    KIND = "secagg/unmasked/v1"

    context: RoundContext
    name: str
    seed_shares: tuple[Share, ...]
    key_shares: tuple[Share, ...]

    def to_fields(self) -> dict[str, Scalar]:
        """Flat table for the wire."""
        return _table(
            self.KIND,
            self.context,
            name=self.name,
            seed_shares=_pack_shares(self.seed_shares),
            key_shares=_pack_shares(self.key_shares),
        )

    @classmethod
    def from_fields(cls, fields: Fields) -> UnmaskReply:
        """Undo `to_fields`."""
        return cls(
            _context(cls.KIND, fields),
            take(fields, "name", str),
            _unpack_shares(take(fields, "seed_shares", bytes)),
            _unpack_shares(take(fields, "key_shares", bytes)),
        )


def _pack_shares(shares: Sequence[Share]) -> bytes:
    return pack_named([(share.owner, pack_int(share.index) + share.value) for share in shares])


def _unpack_shares(data: bytes) -> tuple[Share, ...]:
    return tuple(
        Share(owner, unpack_int(value[:8]), value[8:]) for owner, value in unpack_named(data)
    )
