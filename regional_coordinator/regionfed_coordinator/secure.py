"""The coordinator's side of one masked round, carried by exchanges with the region's clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from regionfed.errors import SecureAggregationError, UpdateError
from regionfed.identity.secure_files import load_directory, load_signed, region_identity
from regionfed.messages import (
    RegionOrder,
    SecureAnswer,
    SecureOrder,
    WireMessage,
    pack_step,
    unpack_step,
)
from regionfed.messages.summed import SECURE
from regionfed.privacy.quantities import Channel
from regionfed.secagg import (
    MaskReply,
    OpenReply,
    SecAggCoordinator,
    UnmaskReply,
    signed_sum,
)
from regionfed.secagg.masks import Words
from regionfed_coordinator.region import Region, Traffic

logger = logging.getLogger(__name__)

Take = Callable[[str, SecureAnswer], None]


class SecureRound:
    """One attempt at one round in one channel; in memory only, an interrupted one is begun anew.

    The unmasking of a training round brings the opening of the next one along where the same
    clients are asked again, so that an undisturbed round has one exchange less (docs,
    'The exchanges'); what was opened ahead is used only if the whole cohort opened it.

    Raises IdentityError when the region's directory or signed configuration is missing,
    SecureAggregationError when the round cannot go on; nothing is revealed then.
    """

    def __init__(
        self,
        region: Region,
        order: RegionOrder,
        *,
        channel: Channel,
        cohort: Sequence[str],
        traffic: Traffic,
    ) -> None:
        folder = region_identity(region.name)
        self._region, self._order, self._traffic = region, order, traffic
        self._channel = channel
        self._signed = load_signed(folder, channel)
        self._directory = load_directory(folder)
        self._cohort = tuple(cohort)
        ahead = region.opened_ahead.pop(channel, None)
        self._opened_ahead = ahead is not None and self._is_this_round(ahead)
        self._round = ahead if ahead is not None and self._opened_ahead else self._start(order)

    @property
    def opened(self) -> tuple[str, ...]:
        """Clients that opened the round and are asked to mask."""
        return tuple(name for name, _ in self._round.roster)

    def open(self) -> None:
        """Exchange 1: fresh keys and sealed shares of the cohort, unless they are here already."""
        if not self._opened_ahead:
            step = pack_step(self._round.open_message().to_fields())
            self._steps(
                dict.fromkeys(self._cohort, self._order_of(step)),
                name="open",
                take=lambda name, answer: self._round.receive_open(name, _opening(answer.step)),
            )
        self._round.close_opening()

    def mask_step(self, name: str) -> bytes:
        """The packed masking request that goes with `name`'s order."""
        return pack_step(self._round.mask_message(name).to_fields())

    def take(self, name: str, words: Words, receipt: bytes) -> None:
        """Add one masked vector."""
        reply = MaskReply.from_fields(unpack_step(receipt))
        self._round.receive_masked(name, reply, words)

    def unmask(self) -> Mapping[str, NDArray[np.int32]]:
        """Exchange 3: the survivors' shares, and the integer sums by block."""
        self._round.close_masking()
        survivors = self._round.survivors
        following = self._following(survivors)
        opening = b"" if following is None else pack_step(following.open_message().to_fields())

        def take(name: str, answer: SecureAnswer) -> None:
            reply = UnmaskReply.from_fields(unpack_step(answer.step))
            self._round.receive_unmask(name, reply)
            if following is not None and answer.following:
                _take_ahead(following, name, answer.following)

        self._steps(
            {
                name: self._order_of(
                    pack_step(self._round.unmask_message(name).to_fields()), following=opening
                )
                for name in survivors
            },
            name="unmask",
            take=take,
        )
        if following is not None:
            self._region.opened_ahead[self._channel] = following
        total = self._round.finish()
        return signed_sum(total, self._signed.config, clients=len(survivors))

    def _start(self, order: RegionOrder) -> SecAggCoordinator:
        return SecAggCoordinator.start(
            signed=self._signed,
            directory=self._directory,
            run=self._run,
            region=self._region.name,
            round=order.round,
            cohort=self._cohort,
        )

    @property
    def _run(self) -> str:
        return f"{self._order.run}/{self._channel.value}"

    def _is_this_round(self, ahead: SecAggCoordinator) -> bool:
        """Whether what was opened ahead is this round, with all of its cohort."""
        context, state = ahead.state.context, ahead.state
        return (
            (context.run, context.round) == (self._run, self._order.round)
            and state.signed == self._signed
            and {name for name, _ in ahead.roster} == set(self._cohort) == set(state.cohort)
        )

    def _following(self, survivors: Sequence[str]) -> SecAggCoordinator | None:
        """The next round to be opened ahead; None where it asks anybody who is not asked now."""
        order = self._order
        if self._channel is not Channel.TRAIN or order.round >= order.rounds:
            return None
        following = replace(order, round=order.round + 1)
        same = set(self._region.cohort(following)) == set(self._cohort) == set(survivors)
        return self._start(following) if same else None

    def _order_of(self, step: bytes, *, following: bytes = b"") -> SecureOrder:
        order = self._order
        return SecureOrder(
            run=order.run,
            region=self._region.name,
            round=order.round,
            digest=order.digest,
            channel=self._channel.value,
            step=step,
            following=following,
        )

    def _steps(self, messages: Mapping[str, SecureOrder], *, name: str, take: Take) -> None:
        def on_answer(client: str, answer: WireMessage) -> None:
            assert isinstance(answer, SecureAnswer)
            take(client, answer)

        self._region.exchange(
            self._order,
            messages,
            message_type=f"train.{SECURE}",
            phase=f"{self._channel.value} {name}",
            traffic=self._traffic,
            on_answer=on_answer,
            reply=SecureAnswer,
        )


def _opening(step: bytes) -> OpenReply:
    return OpenReply.from_fields(unpack_step(step))


def _take_ahead(following: SecAggCoordinator, name: str, step: bytes) -> None:
    """Take an opening that came along; one that cannot be used is as good as none."""
    try:
        following.receive_open(name, _opening(step))
    except (SecureAggregationError, UpdateError) as error:
        logger.warning("the opening of client %s ahead of its round is refused: %s", name, error)
