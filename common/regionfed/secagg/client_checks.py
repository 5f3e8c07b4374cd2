"""What a client checks in a message before it uses a secret for it."""

from __future__ import annotations

import hashlib

from regionfed.secagg.advertisement import Advertisement, receipt_bytes, roster_binding
from regionfed.secagg.client_state import ClientState, RoundSecrets
from regionfed.secagg.context import RoundContext
from regionfed.secagg.errors import (
    OwnKeyAltered,
    ReplayedRound,
    RosterMismatch,
    StageRegression,
    TooFewSurvivors,
    WrongContext,
)
from regionfed.secagg.graph import MaskGraph
from regionfed.secagg.identity import Directory
from regionfed.secagg.messages import MaskRequest, UnmaskRequest
from regionfed.secagg.roster_checks import check_advertisements


def check_new_round(state: ClientState, context: RoundContext) -> None:
    """Raise WrongContext, ReplayedRound or StageRegression unless this attempt may be opened.

    A round may be opened again under a fresh nonce as long as its shares were not handed out.
    """
    if (context.run, context.region) != (state.run, state.region):
        raise WrongContext(
            f"asked to join run {context.run!r} of region {context.region!r}, this client "
            f"takes part in run {state.run!r} of {state.region!r}"
        )
    if context.round <= state.answered:
        raise ReplayedRound(
            f"round {context.round} was completed by this client (last: {state.answered})"
        )
    if context.round < state.newest:
        raise StageRegression(
            f"round {context.round} is older than round {state.newest}, opened already"
        )
    if context.round == state.newest and context.nonce in state.nonces:
        raise ReplayedRound(
            f"round {context.round} was opened under this nonce before; a new attempt needs a "
            "fresh nonce"
        )


def live_round(state: ClientState, context: RoundContext) -> RoundSecrets:
    """The round that a message continues; WrongContext, ReplayedRound or StageRegression."""
    for kept in state.rounds:
        if kept.context.round == context.round:
            kept.context.require(context)
            return kept
    if (context.run, context.region) != (state.run, state.region):
        raise WrongContext(f"run {context.run!r} of region {context.region!r} is not this one")
    if context.round <= state.newest:
        raise ReplayedRound(f"round {context.round} is over for this client")
    raise StageRegression(f"round {context.round} was never opened with this client")


def check_roster(
    message: MaskRequest, current: RoundSecrets, graph: MaskGraph, *, me: str, directory: Directory
) -> tuple[Advertisement, ...]:
    """The advertisements of this client and its neighbours, once the roster is found sound.

    Raises RosterMismatch, TooFewSurvivors, OwnKeyAltered, or as `check_advertisements` does.
    """
    names = [name for name, _ in message.roster]
    digests = dict(message.roster)
    if names != [name for name in current.cohort if name in digests]:
        raise RosterMismatch("the roster must name members of the opened cohort, in its order")
    if len(names) < graph.threshold:
        raise TooFewSurvivors(
            f"{len(names)} of {len(current.cohort)} clients opened the round, t = "
            f"{graph.threshold}; it is abandoned"
        )
    near = message.advertisements
    own = [entry.to_bytes() for entry in near if entry.name == me]
    mine = hashlib.sha256(current.advertisement).digest()
    if own != [current.advertisement] or digests.get(me) != mine:
        raise OwnKeyAltered(f"the roster lacks the key that {me!r} advertised, or has another")
    if [entry.name for entry in near] != [name for name in graph.holders(me) if name in digests]:
        raise RosterMismatch("the advertisements are not those of this client's neighbours")
    if len(near) < graph.share_threshold:
        raise TooFewSurvivors(
            f"{len(near)} clients around {me!r}, t = {graph.share_threshold} there"
        )
    check_advertisements(near, context=message.context, cohort=current.cohort, directory=directory)
    for entry in near:
        if digests[entry.name] != entry.digest:
            raise RosterMismatch(f"the roster's digest of {entry.name!r} is not of its key")
    return near


def check_receipts(
    message: UnmaskRequest, current: RoundSecrets, *, alive: set[str], directory: Directory
) -> None:
    """Raise UnsignedKey unless each surviving neighbour signed for this very roster."""
    binding = roster_binding(current.context, current.roster)
    receipts = dict(message.receipts)
    for entry in current.neighbours:
        if entry.name in alive:
            directory[entry.name].verify(
                receipt_bytes(entry.name, binding),
                receipts.get(entry.name, b""),
                what="the receipt for this roster",
            )
