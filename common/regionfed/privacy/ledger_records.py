"""What a ledger stores: its terms, charges and releases, each chained to the one before by hash."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from regionfed.errors import PrivacyError, StateError
from regionfed.privacy.events import Event, Unit, to_dict
from regionfed.privacy.gdp import check_delta

GENESIS = "0" * 64


@dataclass(frozen=True, kw_only=True)
class LedgerTerms:
    """What the ledger enforces; fixed in its first entry.

    `epsilon` may be infinite only where nothing is to be stopped (mode paper or off). A client
    takes part in at most `max_participations` rounds (None: unlimited), `min_separation` apart.
    With unit EXAMPLE the ledger is one client's own, of its DP-SGD, and `region` names the client
    as REGION/CLIENT; how often its examples are used is what epsilon bounds.
    """

    region: str
    epsilon: float
    delta: float
    unit: Unit = Unit.CLIENT
    max_participations: int | None = None
    min_separation: int = 1

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if not self.epsilon > 0.0:
            raise PrivacyError(
                f"ledger of {self.region}: epsilon = {self.epsilon} must be positive"
            )
        limit = self.max_participations
        if self.unit is Unit.EXAMPLE and (limit is not None or self.min_separation > 1):
            raise PrivacyError(
                f"ledger of {self.region}: participations are counted for clients, not for examples"
            )
        if (limit is not None and limit < 1) or self.min_separation < 1:
            raise PrivacyError(
                f"ledger of {self.region}: max_participations and min_separation must be at least 1"
            )


@dataclass(frozen=True)
class ChargeToken:
    """Proof of a durable charge; hand it to `Ledger.release` when the release leaves."""

    region: str
    seq: int
    hash: str


@dataclass(frozen=True)
class Entry:
    """One stored line: its number, its canonical JSON and its hash."""

    seq: int
    record: str
    hash: str


def _canonical(record: dict[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def terms_record(terms: LedgerTerms) -> str:
    """The first entry of a ledger."""
    values = dataclasses.asdict(terms)
    if math.isinf(terms.epsilon):
        values["epsilon"] = "inf"
    return _canonical({"type": "open", "terms": values})


def parse_terms(record: dict[str, Any], where: str) -> LedgerTerms:
    """The terms that `terms_record` wrote; raises StateError naming `where` otherwise."""
    try:
        values = dict(record["terms"])
        return LedgerTerms(
            **{**values, "epsilon": float(values["epsilon"]), "unit": Unit(values["unit"])}
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"{where}: its first entry holds no ledger terms ({error})") from error


def charge_record(event: Event, participants: Collection[str]) -> str:
    """A charge: the event and the clients whose data it used."""
    return _canonical(
        {"type": "charge", "event": to_dict(event), "participants": sorted(set(participants))}
    )


def release_record(charge_seq: int) -> str:
    """The mark that the release paid for by entry `charge_seq` has left."""
    return _canonical({"type": "release", "charge": charge_seq})


def entry_hash(previous: str, seq: int, record: str) -> str:
    """SHA-256 over the previous hash, the number and the record."""
    return hashlib.sha256(f"{previous}\n{seq}\n{record}".encode()).hexdigest()


def check_link(previous: str, expected_seq: int, entry: Entry, where: str) -> dict[str, Any]:
    """The parsed record of `entry` after checking that it follows `previous`.

    Raises StateError naming `where` and the entry when the chain is broken there.
    """
    if entry.seq != expected_seq or entry.hash != entry_hash(previous, entry.seq, entry.record):
        raise StateError(
            f"{where}: the hash chain breaks at entry {entry.seq} (expected entry {expected_seq}); "
            "the ledger was changed after it was written. Restore it from a backup; without one "
            "treat the budget of this region as spent"
        )
    parsed = json.loads(entry.record)
    if not isinstance(parsed, dict):
        raise StateError(f"{where}: entry {entry.seq} is not a record")
    return parsed
