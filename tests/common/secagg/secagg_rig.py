"""A region of clients that forget everything between two messages but what they saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from regionfed.secagg import (
    Block,
    ClientState,
    CoordinatorState,
    DeviceKeys,
    Directory,
    MaskReply,
    MaskRequest,
    OpenReply,
    OperatorKey,
    RoundOpen,
    SecAggClient,
    SecAggConfig,
    SecAggCoordinator,
    SignedConfig,
    UnmaskReply,
    UnmaskRequest,
    encode,
)
from regionfed.secagg.errors import SecureAggregationError

RUN, REGION = "run-7", "north"
# The client that the attacks are aimed at.
ME = "client-001"


def names(count: int) -> list[str]:
    return [f"client-{number:03d}" for number in range(count)]


@dataclass
class Rig:
    """Devices, operator and one signed configuration; `states` is what devices have on disk."""

    keys: dict[str, DeviceKeys]
    directory: Directory
    operator: OperatorKey
    signed: SignedConfig
    states: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def create(cls, count: int, *, length: int = 5, **terms: Any) -> Rig:
        keys = {name: DeviceKeys.create(name) for name in names(count)}
        directory = Directory.of(device.enrolment for device in keys.values())
        blocks = terms.pop(
            "blocks", (Block("update", length, clip=1.0, scale=2.0**20, noise_multiplier=4.0),)
        )
        operator = OperatorKey.create()
        config = SecAggConfig(blocks=blocks, directory=directory.digest, **terms)
        return cls(keys, directory, operator, operator.sign(config))

    @property
    def config(self) -> SecAggConfig:
        return self.signed.config

    def client(self, name: str) -> SecAggClient:
        saved = self.states.get(name)
        state = ClientState(RUN, REGION) if saved is None else ClientState.from_bytes(saved)
        return SecAggClient(
            keys=self.keys[name],
            directory=self.directory,
            operator=self.operator.public,
            state=state,
        )

    def start(self, *, round: int = 1, cohort: Iterable[str] | None = None) -> SecAggCoordinator:
        return SecAggCoordinator.start(
            signed=self.signed,
            directory=self.directory,
            run=RUN,
            region=REGION,
            round=round,
            cohort=list(self.keys if cohort is None else cohort),
        )

    def reload(self, coordinator: SecAggCoordinator) -> SecAggCoordinator:
        return SecAggCoordinator(
            directory=self.directory,
            state=CoordinatorState.from_bytes(coordinator.state.to_bytes()),
            total=coordinator.total.copy(),
        )

    def open(self, name: str, message: RoundOpen) -> OpenReply:
        client = self.client(name)
        reply = client.open(RoundOpen.from_fields(message.to_fields()))
        self.states[name] = client.state.to_bytes()
        return OpenReply.from_fields(reply.to_fields())

    def mask(self, name: str, message: MaskRequest, vector: np.ndarray) -> MaskReply:
        client = self.client(name)
        reply = client.mask(MaskRequest.from_fields(message.to_fields()), vector)
        self.states[name] = client.state.to_bytes()
        return MaskReply.from_fields(reply.to_fields())

    def unmask(self, name: str, message: UnmaskRequest) -> UnmaskReply:
        client = self.client(name)
        reply = client.unmask(UnmaskRequest.from_fields(message.to_fields()))
        self.states[name] = client.state.to_bytes()
        return UnmaskReply.from_fields(reply.to_fields())

    def vectors(self, seed: int = 0) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {
            name: encode(
                {
                    block.name: rng.normal(size=block.length).astype(np.float32)
                    for block in self.config.blocks
                },
                self.config,
                rng=rng,
            )
            for name in self.keys
        }

    def opened(self, *, round: int = 1, absent: Iterable[str] = ()) -> SecAggCoordinator:
        """A round in which all but the absent have answered exchange 1."""
        coordinator = self.start(round=round)
        for name in self.keys:
            if name not in set(absent):
                coordinator.receive_open(name, self.open(name, coordinator.open_message()))
                coordinator = self.reload(coordinator)
        coordinator.close_opening()
        return self.reload(coordinator)

    def masked(
        self, coordinator: SecAggCoordinator, vectors: dict[str, np.ndarray]
    ) -> dict[str, tuple[MaskReply, np.ndarray]]:
        """Every member's reply to exchange 2, not yet delivered."""
        replies = {}
        for name, _ in coordinator.roster:
            vector = vectors[name].copy()
            replies[name] = (self.mask(name, coordinator.mask_message(name), vector), vector)
        return replies

    def run(
        self,
        vectors: dict[str, np.ndarray],
        *,
        round: int = 1,
        absent: Iterable[str] = (),
        dropped: Iterable[str] = (),
        silent: Iterable[str] = (),
    ) -> np.ndarray:
        """A whole round; returns the unmasked sum."""
        coordinator = self.opened(round=round, absent=absent)
        for name, (reply, vector) in self.masked(coordinator, vectors).items():
            if name not in set(dropped):
                coordinator.receive_masked(name, reply, vector)
                coordinator = self.reload(coordinator)
        coordinator.close_masking()
        for name in coordinator.survivors:
            if name not in set(silent) and not coordinator.ready:
                reply = self.unmask(name, coordinator.unmask_message(name))
                coordinator.receive_unmask(name, reply)
                coordinator = self.reload(coordinator)
        return coordinator.finish()


def plain_sum(vectors: dict[str, np.ndarray], members: Iterable[str]) -> np.ndarray:
    return np.sum([vectors[name] for name in members], axis=0, dtype=np.uint32)


def vector(rig: Rig) -> np.ndarray:
    return np.zeros(rig.config.length, dtype=np.uint32)


def masked(rig: Rig, *, round: int = 1, dropped: tuple[str, ...] = ()) -> SecAggCoordinator:
    coordinator = rig.opened(round=round)
    for name, (reply, words) in rig.masked(coordinator, rig.vectors()).items():
        if name not in dropped:
            coordinator.receive_masked(name, reply, words)
    coordinator.close_masking()
    return coordinator


def refused(rig: Rig, error: type[SecureAggregationError], call: Callable[[], object]) -> None:
    """The named error, and the device's state stays as it was."""
    before = rig.states.get(ME)
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert rig.states.get(ME) == before
