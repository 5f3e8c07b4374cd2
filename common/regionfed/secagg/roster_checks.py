"""The checks that client and coordinator both make on cohorts, rosters and survivor lists."""

from __future__ import annotations

from collections.abc import Sequence

from regionfed.secagg.advertisement import Advertisement, cohort_digest
from regionfed.secagg.context import RoundContext
from regionfed.secagg.errors import (
    AliveAndDead,
    RosterMismatch,
    TooFewSurvivors,
    UnknownClient,
    WrongContext,
)
from regionfed.secagg.identity import Directory
from regionfed.secagg.keys import require_sound_keys


def check_cohort_names(cohort: Sequence[str], directory: Directory) -> None:
    """Raise RosterMismatch unless names are sorted and distinct, UnknownClient if not enrolled."""
    if list(cohort) != sorted(set(cohort)):
        raise RosterMismatch("the cohort must be sorted and name every client once")
    for name in cohort:
        _ = directory[name]


def check_advertisements(
    entries: Sequence[Advertisement],
    *,
    context: RoundContext,
    cohort: Sequence[str],
    directory: Directory,
) -> None:
    """Raise unless every entry is a sound, distinct, signed key of a member for this round.

    WrongContext: of another round. RosterMismatch: its sender saw another cohort. UnsignedKey,
    LowOrderKey, DuplicateKey, UnknownClient: as named.
    """
    members = set(cohort)
    expected = cohort_digest(cohort)
    for entry in entries:
        if entry.name not in members:
            raise UnknownClient(f"{entry.name!r} advertises a key and is not in the cohort")
        if entry.context != context.digest:
            raise WrongContext(
                f"the key of {entry.name!r} was made for another run, region, round or nonce"
            )
        directory[entry.name].verify(entry.signed_bytes, entry.signature, what="the round key")
        if entry.cohort != expected:
            raise RosterMismatch(
                f"{entry.name!r} was told another cohort than this client; the coordinator must "
                "open the round with one list"
            )
    if len({entry.name for entry in entries}) != len(entries):
        raise RosterMismatch("a client advertises two keys in one roster")
    require_distinct_keys(entries)


def require_distinct_keys(entries: Sequence[Advertisement]) -> None:
    """Raise LowOrderKey or DuplicateKey unless all mask and share keys are sound and distinct."""
    keys = {entry.name: entry.mask_key for entry in entries}
    keys |= {f"{entry.name} (shares)": entry.share_key for entry in entries}
    require_sound_keys(keys)


def check_outcome(
    survivors: Sequence[str], dropped: Sequence[str], *, roster: Sequence[str], threshold: int
) -> None:
    """Raise unless survivors and dropped split the roster and t survive.

    AliveAndDead, RosterMismatch or TooFewSurvivors.
    """
    named = [*survivors, *dropped]
    if len(set(named)) != len(named):
        twice = sorted({name for name in named if named.count(name) > 1})
        raise AliveAndDead(
            f"{twice} named more than once among survivors and dropped; answering would give both "
            "of its secrets away"
        )
    if set(named) != set(roster):
        raise RosterMismatch(
            f"survivors and dropped must be the {len(roster)} clients that were masked against; "
            f"differing: {sorted(set(named) ^ set(roster))[:5]}"
        )
    if len(survivors) < threshold:
        raise TooFewSurvivors(
            f"{len(survivors)} of {len(roster)} clients survived, t = {threshold}; the round is "
            "abandoned, wait for more clients and open it again"
        )
