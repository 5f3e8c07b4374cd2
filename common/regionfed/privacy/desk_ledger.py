"""The region's ledger as its desk keeps it: charges asked for in JSON, one file per run.

A request charges an event, marks a release as gone, or asks whether events could be paid.

The terms travel with each request and are fixed by the first; a later one that differs is
refused. The file is opened for each request, because a desk serves from many threads.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from regionfed.errors import PrivacyError
from regionfed.privacy.events import Event, NoisedRelease, Sampling, from_dict, to_dict
from regionfed.privacy.ledger_records import ChargeToken, LedgerTerms, parse_terms, terms_record
from regionfed.privacy.ledger_sqlite import SqliteLedger, ledger_path

_FLOATS = ("epsilon", "epsilon_external", "delta")


@dataclasses.dataclass(frozen=True)
class ChargeAnswer:
    """What a durable charge came to; `seq` and `hash` are the token that marks its release."""

    seq: int
    hash: str
    epsilon: float
    epsilon_external: float
    delta: float


def charge_request(run: str, terms: LedgerTerms, event: Event, participants: list[str]) -> str:
    """The request to charge `event` to the ledger of `run`."""
    return json.dumps(
        {
            "run": run,
            "terms": json.loads(terms_record(terms))["terms"],
            "event": to_dict(event),
            "participants": participants,
        }
    )


def afford_request(run: str, terms: LedgerTerms, events: Sequence[Event]) -> str:
    """The request to say whether all of `events` could be charged to the ledger of `run`."""
    return json.dumps(
        {
            "run": run,
            "terms": json.loads(terms_record(terms))["terms"],
            "affords": [to_dict(event) for event in events],
        }
    )


def release_request(run: str, terms: LedgerTerms, answer: ChargeAnswer) -> str:
    """The request to mark the release of a charge as gone."""
    return json.dumps(
        {
            "run": run,
            "terms": json.loads(terms_record(terms))["terms"],
            "released": [answer.seq, answer.hash],
        }
    )


def read_answer(text: str) -> ChargeAnswer:
    """The desk's answer to a charge."""
    values = json.loads(text)
    return ChargeAnswer(**{**values, **{k: float(values[k]) for k in _FLOATS}})


class DeskLedger:
    """Serves `bridge.api.Ledger`; ledgers lie in `folder/RUN/REGION.ledger.sqlite`."""

    def __init__(self, folder: Path, region: str) -> None:
        self._folder = folder
        self._region = region

    def charge(self, event_json: str) -> str:
        """Charge an event durably, mark a release, or look ahead; see the `*_request` functions.

        Raises PrivacyError, BudgetExhausted or StateError; then nothing was recorded.
        """
        request = _parsed(event_json)
        terms = parse_terms({"terms": request["terms"]}, f"the request of region {self._region}")
        if terms.region != self._region:
            raise PrivacyError(f"a charge to {terms.region} reached the desk of {self._region}")
        run = str(request["run"])
        if not run.isalnum():
            raise PrivacyError(f"{run!r} is not the name of a run")
        path = ledger_path(self._folder / run, self._region)
        with closing(SqliteLedger(path, terms)) as ledger:
            if "released" in request:
                seq, digest = request["released"]
                ledger.release(ChargeToken(self._region, int(seq), str(digest)))
                return "{}"
            if "affords" in request:
                ledger.require_affordable(*map(from_dict, request["affords"]))
                return "{}"
            return _charge(ledger, from_dict(request["event"]), list(request["participants"]))


def _charge(ledger: SqliteLedger, event: Event, participants: list[str]) -> str:
    """Charge, counting how often this kind of release was charged in this round before."""
    before = sum(e.kind == event.kind and e.round == event.round for e in ledger.events())
    token = ledger.charge(dataclasses.replace(event, attempt=before), participants=participants)
    events, delta = ledger.events(), ledger.terms.delta
    epsilon = ledger.total_cost().epsilon(delta)
    sampled = any(isinstance(e, NoisedRelease) and e.sampling is Sampling.POISSON for e in events)
    external = ledger.spent().eps_external if sampled else epsilon
    return json.dumps(
        {
            "seq": token.seq,
            "hash": token.hash,
            "epsilon": _number(epsilon),
            "epsilon_external": _number(external),
            "delta": delta,
        }
    )


def _number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


def _parsed(text: str) -> dict[str, Any]:
    try:
        request = json.loads(text)
        missing = {"run", "terms"} - set(request)
    except (ValueError, TypeError) as error:
        raise PrivacyError("a charge to the ledger is not JSON") from error
    asked = {"event", "released", "affords"} & set(request)
    if missing or len(asked) != 1:
        raise PrivacyError(
            "a request to the ledger names run, terms, and an event, a release or what to afford"
        )
    return dict(request)
