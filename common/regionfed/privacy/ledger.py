"""The region's privacy ledger: append-only, hash-chained, charged BEFORE anything is released.

    token = ledger.charge(event, participants=clients)   # durable when it returns
    send(noised)                                         # the release leaves
    ledger.release(token)                                # mark it

A crash between the first two lines leaves a charge without a release: it over-counts and never
under-counts. A retry with fresh noise is a new charge. `Ledger` holds the rules; where entries
live is the business of its implementations (`InMemoryLedger`, `ledger_sqlite.SqliteLedger`),
tested by one suite. A hash chain shows changes but not a cut-off end: keep `head` elsewhere (the
run's report does) and pass it to `verify`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection
from contextlib import AbstractContextManager

from regionfed.errors import BudgetExhausted, PrivacyError, StateError
from regionfed.privacy.accountant import (
    Cost,
    Spent,
    cost,
    example_level_epsilon,
    fits_by_rdp,
    spend,
)
from regionfed.privacy.events import Event, Noise, NoisedRelease, TrainingUpdate, Unit, from_dict
from regionfed.privacy.ledger_records import (
    GENESIS,
    ChargeToken,
    Entry,
    LedgerTerms,
    charge_record,
    check_link,
    entry_hash,
    parse_terms,
    release_record,
    terms_record,
)

# Multipliers are split from the budget in floating point; their sum may miss it by this much.
_TOLERANCE = 1e-6


class Ledger(ABC):
    """One region's account. Implementations store entries in order and never change one."""

    def __init__(self, terms: LedgerTerms) -> None:
        self.terms = terms
        self._forget()

    def _forget(self) -> None:
        """Drop what was read; the next access reads the stored entries from the start."""
        self.head = GENESIS
        self._seq = 0
        self._events: list[Event] = []
        self._rounds: dict[str, set[int]] = defaultdict(set)
        self._charges: dict[int, str] = {}
        self._released: set[int] = set()

    @property
    @abstractmethod
    def name(self) -> str:
        """Where the ledger lives, as a person would look for it."""

    @abstractmethod
    def _exclusive(self) -> AbstractContextManager[None]:
        """Hold the ledger alone, across processes; durably commit on leaving without an error."""

    @abstractmethod
    def _read_after(self, seq: int) -> list[Entry]:
        """Every entry with a number above `seq`, in order."""

    @abstractmethod
    def _store(self, entry: Entry) -> None:
        """Append `entry`; called only inside `_exclusive`."""

    def open(self) -> None:
        """Read and verify what is there, or write the terms into an empty ledger.

        Raises StateError when the chain is broken or the stored terms differ from these.
        """
        with self._exclusive():
            self._catch_up()
            if self._seq == 0:
                self._append(terms_record(self.terms))
                self._catch_up()

    def charge(self, event: Event, *, participants: Collection[str] = ()) -> ChargeToken:
        """Durably charge `event` and return the token that its release needs.

        `participants` names the clients whose data it used. Raises BudgetExhausted (nothing is
        charged) when the budget cannot pay it, PrivacyError when a client would exceed its
        participations or the event is not allowed under the ledger's terms.
        """
        with self._exclusive():
            self._catch_up()
            self._check_unit(event)
            self._check_correlated(event)
            self._check_participants(event, participants)
            self._check_budget(event)
            entry = self._append(charge_record(event, participants))
            # Parsed before it is committed: what cannot be read back is not accepted.
            self._catch_up()
        return ChargeToken(region=self.terms.region, seq=entry.seq, hash=entry.hash)

    def release(self, token: ChargeToken) -> None:
        """Mark the release of a charge; raises PrivacyError for an unknown or used token."""
        with self._exclusive():
            self._catch_up()
            if token.region != self.terms.region or self._charges.get(token.seq) != token.hash:
                raise PrivacyError(f"{self.name}: entry {token.seq} is no charge of this ledger")
            if token.seq in self._released:
                raise PrivacyError(
                    f"{self.name}: the charge of entry {token.seq} was released already; "
                    "a second release with fresh noise needs its own charge"
                )
            self._append(release_record(token.seq))
            self._catch_up()

    def can_afford(self, *events: Event) -> bool:
        """Whether all of `events` could still be charged one after the other."""
        self.refresh()
        return self._fits([*self._events, *events])

    def require_affordable(self, *events: Event) -> None:
        """Raise BudgetExhausted unless all of `events` could be charged; nothing is charged."""
        self.refresh()
        self._check_budget(*events)

    def events(self) -> list[Event]:
        """Every event charged so far, released or not."""
        self.refresh()
        return list(self._events)

    def counts(self) -> tuple[int, int]:
        """(charges, releases)."""
        self.refresh()
        return len(self._charges), len(self._released)

    def spent(self) -> Spent:
        """Everything charged so far, accounted with PLD and RDP."""
        return spend(
            self.events(),
            delta=self.terms.delta,
            unit=self.terms.unit,
            max_participations=self.terms.max_participations,
        )

    def total_cost(self) -> Cost:
        """The unamplified cost of everything charged so far."""
        return self._cost(self.events())

    def cost_by_release(self) -> dict[str, Cost]:
        """The unamplified cost of each kind of release alone, by its name."""
        groups: dict[str, list[Event]] = defaultdict(list)
        for event in self.events():
            if event.unit is not Unit.EXAMPLE:
                groups[event.kind].append(event)
        return {kind: self._cost(group) for kind, group in groups.items()}

    def participations(self, client: str) -> list[int]:
        """The rounds that used `client`'s data, ascending."""
        self.refresh()
        return sorted(self._rounds.get(client, ()))

    def verify(self, *, expected_head: str | None = None) -> str:
        """Recompute the whole hash chain and return its head.

        Raises StateError when it is broken, or does not contain `expected_head`.
        """
        with self._exclusive():
            entries = self._read_after(0)
        head = GENESIS
        seen = {head}
        for number, entry in enumerate(entries, start=1):
            check_link(head, number, entry, self.name)
            head = entry.hash
            seen.add(head)
        if expected_head is not None and expected_head not in seen:
            raise StateError(
                f"{self.name}: the recorded head {expected_head[:16]}... is not in the chain; "
                "entries were cut off or the ledger was replaced. Restore it from a backup"
            )
        return head

    def refresh(self) -> None:
        """Take up what other processes have appended."""
        with self._exclusive():
            self._catch_up()

    def _append(self, record: str) -> Entry:
        seq = self._seq + 1
        entry = Entry(seq=seq, record=record, hash=entry_hash(self.head, seq, record))
        self._store(entry)
        return entry

    def _catch_up(self) -> None:
        for entry in self._read_after(self._seq):
            parsed = check_link(self.head, self._seq + 1, entry, self.name)
            if entry.seq == 1:
                self._check_terms(parse_terms(parsed, self.name))
            elif parsed.get("type") == "charge":
                event = from_dict(parsed["event"])
                self._events.append(event)
                self._charges[entry.seq] = entry.hash
                if event.per_participation:
                    for client in parsed["participants"]:
                        self._rounds[client].add(event.round)
            elif parsed.get("type") == "release":
                self._released.add(parsed["charge"])
            else:
                raise StateError(f"{self.name}: entry {entry.seq} is of an unknown type")
            self._seq, self.head = entry.seq, entry.hash

    def _check_terms(self, stored: LedgerTerms) -> None:
        if stored != self.terms:
            fix = "start a new run with a new ledger"
            if self.terms.unit is Unit.EXAMPLE:
                fix = "let the device's owner move the ledger away, who then grants a new budget"
            raise StateError(
                f"{self.name} was opened with {stored}, but the configuration now says "
                f"{self.terms}; a budget is not changed in the middle of a run. Restore the "
                f"configuration, or {fix}"
            )

    def _cost(self, events: list[Event]) -> Cost:
        return cost(events, unit=self.terms.unit, max_participations=self.terms.max_participations)

    def _epsilon(self, events: list[Event]) -> float:
        """What binds: of clients and regions without amplification, of examples with it."""
        delta = self.terms.delta
        if self.terms.unit is Unit.EXAMPLE:
            return max(example_level_epsilon(events, delta=delta).values(), default=0.0)
        return self._cost(events).epsilon(delta)

    def _fits(self, events: list[Event]) -> bool:
        allowed, delta = self.terms.epsilon * (1.0 + _TOLERANCE), self.terms.delta
        if self.terms.unit is Unit.EXAMPLE and fits_by_rdp(events, epsilon=allowed, delta=delta):
            return True
        return self._epsilon(events) <= allowed

    def _check_unit(self, event: Event) -> None:
        if self.terms.unit is Unit.EXAMPLE and event.unit is not Unit.EXAMPLE:
            raise PrivacyError(
                f"{self.name} is a client's ledger of its examples; a {event.kind} protects a "
                f"{event.unit} and belongs into the region's ledger"
            )

    def _check_budget(self, *events: Event) -> None:
        after = [*self._events, *events]
        if not self._fits(after):
            owner = "client" if self.terms.unit is Unit.EXAMPLE else "region"
            kinds = ", ".join(event.kind for event in events)
            raise BudgetExhausted(
                f"{owner} {self.terms.region}: {kinds} of round {events[0].round} would raise "
                f"epsilon from {self._epsilon(self._events):.4f} to {self._epsilon(after):.4f}, "
                f"above the budget {self.terms.epsilon:g} (delta {self.terms.delta:g}); nothing was "
                f"released. "
                f"Ledger: {self.name}. The model of the last round stands"
            )

    def _check_participants(self, event: Event, participants: Collection[str]) -> None:
        limit, separation = self.terms.max_participations, self.terms.min_separation
        if not event.per_participation or self.terms.unit is not Unit.CLIENT:
            return
        if event.unit is Unit.EXAMPLE or (limit is None and separation == 1):
            return
        if not participants:
            raise PrivacyError(
                f"{self.name}: a {event.kind} must name its participants, because the ledger "
                f"bounds participation ({limit} rounds, {separation} apart)"
            )
        for client in participants:
            others = self._rounds.get(client, set()) - {event.round}
            if limit is not None and len(others) + 1 > limit:
                raise PrivacyError(
                    f"{self.name}: client {client} already took part in {len(others)} of at most "
                    f"{limit} rounds; leave it out of round {event.round}"
                )
            near = [other for other in others if abs(other - event.round) < separation]
            if near:
                raise PrivacyError(
                    f"{self.name}: client {client} took part in round {near[0]}, fewer than "
                    f"{separation} rounds from round {event.round}; leave it out"
                )

    def _check_correlated(self, event: Event) -> None:
        if not isinstance(event, NoisedRelease) or event.noise is not Noise.CORRELATED:
            return
        if not isinstance(event, TrainingUpdate):
            raise PrivacyError(f"correlated noise is for training updates, not for a {event.kind}")
        if self.terms.max_participations is None or self.terms.min_separation < event.bands:
            raise PrivacyError(
                f"{self.name}: correlated noise of {event.bands} bands needs bounded participation "
                f"at least {event.bands} rounds apart; set max_participations and min_separation"
            )
        drawn = any(isinstance(e, TrainingUpdate) and e.round == event.round for e in self._events)
        if event.attempt > 0 or drawn:
            raise PrivacyError(
                f"{self.name}: the correlated noise of round {event.round} was drawn already; send "
                "the stored release again or go on to the next round, never draw it twice"
            )


class InMemoryLedger(Ledger):
    """For simulation and tests: lost with the process, same rules."""

    def __init__(self, terms: LedgerTerms) -> None:
        super().__init__(terms)
        self._entries: list[Entry] = []
        self._lock = threading.Lock()
        self.open()

    @property
    def name(self) -> str:
        return f"in-memory ledger of region {self.terms.region}"

    def _exclusive(self) -> AbstractContextManager[None]:
        return _Locked(self._lock)

    def _read_after(self, seq: int) -> list[Entry]:
        return self._entries[seq:]

    def _store(self, entry: Entry) -> None:
        self._entries.append(entry)


class _Locked(AbstractContextManager[None]):
    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()
