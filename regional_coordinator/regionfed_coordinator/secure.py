"""The coordinator's side of one masked round, carried by exchanges with the region's clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from regionfed.identity.secure_files import load_directory, load_signed, region_identity
from regionfed.messages import (
    RegionOrder,
    SecureAnswer,
    SecureOrder,
    WireMessage,
    pack_step,
    unpack_step,
)
from regionfed.messages.summed import SECURE, Scalar
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

Take = Callable[[str, dict[str, Scalar]], None]


class SecureRound:
    """One attempt at one round in one channel; in memory only, an interrupted one is begun anew.

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
        self._round = SecAggCoordinator.start(
            signed=self._signed,
            directory=load_directory(folder),
            run=f"{order.run}/{channel.value}",
            region=region.name,
            round=order.round,
            cohort=cohort,
        )
        self._cohort = tuple(cohort)

    @property
    def opened(self) -> tuple[str, ...]:
        """Clients that opened the round and are asked to mask."""
        return tuple(name for name, _ in self._round.roster)

    def open(self) -> None:
        """Exchange 1: fresh keys and sealed shares of the cohort."""
        step = pack_step(self._round.open_message().to_fields())
        self._steps(
            dict.fromkeys(self._cohort, self._order_of(step)),
            name="open",
            take=lambda name, fields: self._round.receive_open(name, OpenReply.from_fields(fields)),
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
        self._steps(
            {
                name: self._order_of(pack_step(self._round.unmask_message(name).to_fields()))
                for name in survivors
            },
            name="unmask",
            take=lambda name, fields: self._round.receive_unmask(
                name, UnmaskReply.from_fields(fields)
            ),
        )
        total = self._round.finish()
        return signed_sum(total, self._signed.config, clients=len(survivors))

    def _order_of(self, step: bytes) -> SecureOrder:
        order = self._order
        return SecureOrder(
            run=order.run,
            region=self._region.name,
            round=order.round,
            digest=order.digest,
            channel=self._channel.value,
            step=step,
        )

    def _steps(self, messages: Mapping[str, SecureOrder], *, name: str, take: Take) -> None:
        def on_answer(client: str, answer: WireMessage) -> None:
            assert isinstance(answer, SecureAnswer)
            take(client, unpack_step(answer.step))

        self._region.exchange(
            self._order,
            messages,
            message_type=f"train.{SECURE}",
            phase=f"{self._channel.value} {name}",
            traffic=self._traffic,
            on_answer=on_answer,
            reply=SecureAnswer,
        )
