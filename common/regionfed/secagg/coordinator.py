"""The coordinator's side of a round: it collects, and learns the sum of the survivors only.

    round = SecAggCoordinator.start(signed=..., directory=..., run=..., region=..., round=..., cohort=...)
    exchange 1: send round.open_message() to all;       round.receive_open(sender, reply)
    round.close_opening()
    exchange 2: send round.mask_message(name) to each;  round.receive_masked(sender, reply, vector)
    round.close_masking()
    exchange 3: send round.unmask_message(name);        round.receive_unmask(sender, reply)
    total = round.finish()

`sender` is the name of the node that answered, as the transport knows it. Vectors are added up as
they arrive, so memory is that of one sum and one arriving vector whatever the number of clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from regionfed.secagg.advertisement import receipt_bytes, roster_binding
from regionfed.secagg.config import SignedConfig
from regionfed.secagg.context import RoundContext
from regionfed.secagg.coordinator_state import CoordinatorStage, CoordinatorState
from regionfed.secagg.encoding import signed_sum
from regionfed.secagg.errors import (
    RosterMismatch,
    ShareIndexInvalid,
    StageRegression,
    TooFewSurvivors,
    UnknownClient,
)
from regionfed.secagg.graph import MaskGraph, ordered
from regionfed.secagg.identity import Directory
from regionfed.secagg.masks import Words, apply_masks, require_words
from regionfed.secagg.messages import (
    MaskReply,
    MaskRequest,
    OpenReply,
    RoundOpen,
    Share,
    UnmaskReply,
    UnmaskRequest,
)
from regionfed.secagg.roster_checks import (
    check_advertisements,
    check_cohort_names,
    check_outcome,
    require_distinct_keys,
)
from regionfed.secagg.shamir import require_share
from regionfed.secagg.unmasking import removal_streams


class SecAggCoordinator:
    """State machine of one round of one region.

    `state` and `total` together are all there is; save both or neither. After a crash between
    the two, abandon the round and start it again: `start` draws a fresh nonce.
    """

    def __init__(self, *, directory: Directory, state: CoordinatorState, total: Words) -> None:
        require_words(total, length=state.signed.config.length)
        self._directory = directory
        self.state = state
        self.total = total
        self.graph = MaskGraph(state.context, state.signed.config, state.cohort)

    @classmethod
    def start(
        cls,
        *,
        signed: SignedConfig,
        directory: Directory,
        run: str,
        region: str,
        round: int,
        cohort: Sequence[str],
    ) -> SecAggCoordinator:
        """Begin an attempt at a round.

        Raises CohortTooSmall, ValueOutOfRange, UnknownClient or RosterMismatch (a name twice).
        """
        config = signed.config
        names = ordered(cohort)
        check_cohort_names(names, directory)
        config.check_cohort(len(names))
        context = RoundContext.fresh(
            run=run, region=region, round=round, configuration=config.digest
        )
        return cls(
            directory=directory,
            state=CoordinatorState(context, signed, names),
            total=np.zeros(config.length, dtype=np.uint32),
        )

    @property
    def roster(self) -> tuple[tuple[str, bytes], ...]:
        """Those who opened the round, with the digests of their advertisements."""
        if self.state.stage is CoordinatorStage.OPENING:
            return self._opened()
        return self._fixed_roster

    def _opened(self) -> tuple[tuple[str, bytes], ...]:
        opened = self.state.advertisements
        return tuple((name, opened[name].digest) for name in self.state.cohort if name in opened)

    @cached_property
    def _fixed_roster(self) -> tuple[tuple[str, bytes], ...]:
        return self._opened()

    @cached_property
    def _binding(self) -> bytes:
        return roster_binding(self.state.context, self._fixed_roster)

    @property
    def survivors(self) -> tuple[str, ...]:
        """Those whose masked vector is in the sum, in cohort order."""
        return tuple(name for name in self.state.cohort if name in self.state.receipts)

    @property
    def dropped(self) -> tuple[str, ...]:
        """Those who opened the round and delivered no vector."""
        return tuple(name for name, _ in self.roster if name not in self.state.receipts)

    def open_message(self) -> RoundOpen:
        """Exchange 1, the same for the whole cohort."""
        state = self.state
        return RoundOpen(state.context, state.signed, state.cohort, self.graph.threshold)

    def receive_open(self, sender: str, reply: OpenReply) -> None:
        """Take a client's keys and sealed shares.

        Raises StageRegression, WrongContext, UnknownClient, UnsignedKey, LowOrderKey,
        DuplicateKey or RosterMismatch; the client is then not part of the round.
        """
        state = self.state
        self._expect(CoordinatorStage.OPENING, reply.context)
        entry = reply.advertisement
        self._require_sender(sender, entry.name)
        if sender in state.advertisements:
            raise StageRegression(f"{sender!r} opened this round already")
        check_advertisements(
            [entry], context=state.context, cohort=state.cohort, directory=self._directory
        )
        require_distinct_keys([*state.advertisements.values(), entry])
        holders = [name for name in self.graph.holders(sender) if name != sender]
        if [name for name, _ in reply.sealed] != holders:
            raise RosterMismatch(f"{sender!r} sent shares for other clients than its neighbours")
        state.advertisements[sender] = entry
        state.sealed[sender] = dict(reply.sealed)

    def close_opening(self) -> None:
        """Fix the roster; raises TooFewSurvivors when fewer than t opened."""
        self._expect(CoordinatorStage.OPENING, self.state.context)
        self._require_threshold(len(self.state.advertisements), what="opened the round")
        self.state.stage = CoordinatorStage.MASKING

    def mask_message(self, name: str) -> MaskRequest:
        """Exchange 2, one for each client of the roster; goes with the training message."""
        state = self.state
        self._expect(CoordinatorStage.MASKING, state.context)
        near = [other for other in self.graph.holders(name) if other in state.advertisements]
        return MaskRequest(
            state.context,
            state.signed.config.terms(len(state.cohort)),
            self.roster,
            tuple(state.advertisements[other] for other in near),
        )

    def receive_masked(self, sender: str, reply: MaskReply, vector: Words) -> None:
        """Add a masked vector to the sum; `vector` may be discarded afterwards.

        Raises StageRegression (late or second), WrongContext, UnknownClient, UnsignedKey or
        VectorInvalid; the client then counts as dropped.
        """
        state = self.state
        self._expect(CoordinatorStage.MASKING, reply.context)
        self._require_sender(sender, reply.name)
        if sender not in state.advertisements:
            raise UnknownClient(f"{sender!r} did not open this round")
        if sender in state.receipts:
            raise StageRegression(f"{sender!r} delivered its vector already")
        require_words(vector, length=state.signed.config.length, writable=False)
        self._directory[sender].verify(
            receipt_bytes(sender, self._binding),
            reply.receipt,
            what="the receipt for this roster",
        )
        np.add(self.total, vector, out=self.total)
        state.receipts[sender] = reply.receipt

    def close_masking(self) -> None:
        """Fix who survived; raises TooFewSurvivors below t, and the sum stays masked."""
        self._expect(CoordinatorStage.MASKING, self.state.context)
        check_outcome(
            self.survivors,
            self.dropped,
            roster=[name for name, _ in self.roster],
            threshold=self.graph.threshold,
        )
        self._require_neighbourhoods()
        self.state.stage = CoordinatorStage.UNMASKING

    def unmask_message(self, name: str) -> UnmaskRequest:
        """Exchange 3, one for each survivor."""
        state = self.state
        self._expect(CoordinatorStage.UNMASKING, state.context)
        near = [
            other
            for other in self.graph.holders(name)
            if other != name and other in state.advertisements
        ]
        return UnmaskRequest(
            state.context,
            self.survivors,
            self.dropped,
            tuple((other, state.receipts[other]) for other in near if other in state.receipts),
            tuple((other, state.sealed[other][name]) for other in near),
        )

    def receive_unmask(self, sender: str, reply: UnmaskReply) -> None:
        """Take a survivor's shares.

        Raises StageRegression (second answer), WrongContext, UnknownClient, RosterMismatch,
        ShareIndexInvalid or ShareLengthInvalid; its shares are then not used.
        """
        state = self.state
        self._expect(CoordinatorStage.UNMASKING, reply.context)
        self._require_sender(sender, reply.name)
        if sender not in state.receipts:
            raise UnknownClient(f"{sender!r} is no survivor of this round")
        if sender in state.answered:
            raise StageRegression(f"{sender!r} handed out its shares already")
        near = [name for name in self.graph.holders(sender) if name in state.advertisements]
        alive = [name for name in near if name in state.receipts]
        dead = [name for name in near if name not in state.receipts]
        self._check_shares(sender, reply.seed_shares, owners=alive)
        self._check_shares(sender, reply.key_shares, owners=dead)
        for share in (*reply.seed_shares, *reply.key_shares):
            state.shares.setdefault(share.owner, {})[share.index] = share.value
        state.answered.append(sender)

    @property
    def ready(self) -> bool:
        """Whether the shares at hand open the sum; further answers are not needed then."""
        needed = self.graph.share_threshold
        return self.state.stage is CoordinatorStage.UNMASKING and all(
            len(self.state.shares.get(name, {})) >= needed for name, _ in self.roster
        )

    def finish(self) -> Words:
        """Remove the masks from the sum in place and return it; decode with `signed_sum`.

        Raises TooFewSurvivors while shares are missing, KeyMismatch when one is wrong, and
        ValueOutOfRange when the result is larger than honest clients can give.
        """
        state = self.state
        self._expect(CoordinatorStage.UNMASKING, state.context)
        if not self.ready:
            raise TooFewSurvivors(
                f"only {len(state.answered)} of {len(self.survivors)} survivors handed out "
                f"shares, {self.graph.share_threshold} are needed; the round is abandoned"
            )
        streams = removal_streams(state, self.graph, binding=self._binding)
        apply_masks(self.total, streams)
        state.stage = CoordinatorStage.DONE
        signed_sum(self.total, state.signed.config, clients=len(self.survivors))
        return self.total

    def _check_shares(self, sender: str, shares: Sequence[Share], *, owners: Sequence[str]) -> None:
        if sorted(share.owner for share in shares) != sorted(owners):
            raise RosterMismatch(
                f"{sender!r} sent shares of other clients than the {len(owners)} asked for"
            )
        for share in shares:
            if share.index != self.graph.index[sender]:
                raise ShareIndexInvalid(
                    f"{sender!r} sent a share with index {share.index}, its own is "
                    f"{self.graph.index[sender]}"
                )
            require_share(share.value)

    def _expect(self, stage: CoordinatorStage, context: RoundContext) -> None:
        self.state.context.require(context)
        if self.state.stage is not stage:
            raise StageRegression(
                f"the round is {self.state.stage}, this step belongs to {stage}; a late answer is "
                "discarded"
            )

    def _require_sender(self, sender: str, claimed: str) -> None:
        if sender != claimed:
            raise UnknownClient(f"{sender!r} answered in the name of {claimed!r}")
        if sender not in self.graph.index:
            raise UnknownClient(f"{sender!r} is not in this round's cohort")

    def _require_neighbourhoods(self) -> None:
        if self.graph.complete:
            return
        needed = self.graph.share_threshold
        for name, _ in self.roster:
            left = sum(holder in self.state.receipts for holder in self.graph.holders(name))
            if left < needed:
                raise TooFewSurvivors(
                    f"{left} survivors around {name!r}, t = {needed} there; the round is "
                    "abandoned, nothing was revealed: with this many dropouts set more "
                    "`neighbours` in the configuration"
                )

    def _require_threshold(self, clients: int, *, what: str) -> None:
        if clients < self.graph.threshold:
            raise TooFewSurvivors(
                f"{clients} of {len(self.state.cohort)} clients {what}, t = "
                f"{self.graph.threshold}; the round is abandoned, nothing was revealed"
            )
