"""Case 21: what the coordinator and its colluders know does not give one client's update.

The attack below uses everything: each message the coordinator received, the unmasked sum, and the
whole memory of the colluding devices. It is run against the real protocol, where it must fail,
and against protocols with one protection left out, where it must succeed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from secagg_rig import Rig

from regionfed.secagg import ClientState, SecAggCoordinator, shamir
from regionfed.secagg import errors as e
from regionfed.secagg.advertisement import roster_binding, share_binding
from regionfed.secagg.keys import pair_mask_key, self_mask_key
from regionfed.secagg.masks import MaskStream, apply_masks
from regionfed.secagg.shares import commit, unseal

LENGTH = 64


@dataclass
class Transcript:
    """All that the coordinator has after the round, and the colluders' memories."""

    coordinator: SecAggCoordinator
    vectors: dict[str, np.ndarray]
    total: np.ndarray
    colluders: dict[str, ClientState]


def play(
    rig: Rig, truth: dict[str, np.ndarray], victims: tuple[str, str], *, dropped: str | None = None
) -> Transcript:
    coordinator = rig.opened()
    delivered = {}
    for name, (reply, vector) in rig.masked(coordinator, truth).items():
        if name != dropped:
            coordinator.receive_masked(name, reply, vector)
        delivered[name] = vector
    memories = {
        name: ClientState.from_bytes(rig.states[name]) for name in rig.keys if name not in victims
    }
    coordinator.close_masking()
    for name in coordinator.survivors:
        coordinator.receive_unmask(name, rig.unmask(name, coordinator.unmask_message(name)))
    total = rig.reload(coordinator).finish()
    return Transcript(coordinator, delivered, total, memories)


class Attack:
    """Takes every mask off one victim's vector whose secret it can find."""

    def __init__(self, rig: Rig, transcript: Transcript) -> None:
        self.rig, self.seen = rig, transcript
        state = transcript.coordinator.state
        self.context, self.entries = state.context, state.advertisements
        self.graph = transcript.coordinator.graph
        self.binding = roster_binding(self.context, transcript.coordinator.roster)

    def candidates(self, victim: str) -> list[np.ndarray]:
        """The victim's vector with what could be removed, with and without each kind of mask."""
        self_masks = [
            MaskStream(self_mask_key(seed, binding=self.binding, name=victim), True)
            for seed in self._secrets(victim, position=0)
        ]
        known, unknown = self._pair_masks(victim)
        found = []
        for own in ([], self_masks):
            for pairs in ([], known, known + unknown):
                vector = self.seen.vectors[victim].copy()
                apply_masks(vector, own + pairs)
                found.append(vector)
        return found

    def _pair_masks(self, victim: str) -> tuple[list[MaskStream], list[MaskStream]]:
        """Masks with colluders, and those with the other victim if a private key was found."""
        by_colluders, by_shares = [], []
        for other in self.graph.cohort:
            if other == victim:
                continue
            if other in self.seen.colluders:
                secret = self.seen.colluders[other].rounds[-1].mask_private
                by_colluders.append(self._pair_mask(victim, other, secret, public_of=victim))
            else:
                for secret in self._secrets(victim, position=1):
                    by_shares.append(self._pair_mask(victim, other, secret, public_of=other))
                for secret in self._secrets(other, position=1):
                    by_shares.append(self._pair_mask(victim, other, secret, public_of=victim))
        return by_colluders, by_shares[:1]

    def _pair_mask(self, victim: str, other: str, secret: bytes, *, public_of: str) -> MaskStream:
        first = self.graph.index[victim] < self.graph.index[other]
        key = pair_mask_key(
            X25519PrivateKey.from_private_bytes(secret),
            self.entries[public_of].mask_key,
            owner=public_of,
            binding=self.binding,
            pair=(victim, other) if first else (other, victim),
        )
        return MaskStream(key, first)

    def _secrets(self, owner: str, *, position: int) -> list[bytes]:
        """The seed (0) or mask key (1), from revealed shares and those sealed for colluders."""
        state = self.seen.coordinator.state
        alive = owner in state.receipts
        shares = dict(state.shares.get(owner, {})) if alive == (position == 0) else {}
        for name in self.seen.colluders:
            index = self.graph.index[name]
            entry = self.entries[owner]
            binding = share_binding(self.context, entry.cohort, sender=owner, recipient=name)
            pair = unseal(
                self.rig.keys[name].agreement,
                entry.share_key,
                state.sealed[owner][name],
                binding=binding,
                sender=owner,
                index=index,
            )
            shares[index] = pair[position]
        try:
            secret = shamir.combine(shares, threshold=self.graph.share_threshold)
        except (e.TooFewSurvivors, e.KeyMismatch):
            return []
        if position == 0:
            return [secret] if commit(secret) == self.entries[owner].seed_commitment else []
        public = X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        return [secret] if public == self.entries[owner].mask_key else []


def recovers(rig: Rig, seen: Transcript, victim: str, truth: np.ndarray) -> bool:
    """Whether a candidate is the update, or merely resembles it beyond chance."""
    real = truth.view(np.int32).astype(np.float64)
    for vector in Attack(rig, seen).candidates(victim):
        guess = vector.view(np.int32).astype(np.float64)
        alike = np.corrcoef(real, guess)[0, 1]
        in_range = np.mean(np.abs(guess) <= rig.config.blocks[0].bound)
        if np.array_equal(vector, truth) or alike > 0.6 or in_range > 0.3:
            return True
    return False


def region(count: int, **terms: int) -> tuple[Rig, dict[str, np.ndarray], tuple[str, str]]:
    rig = Rig.create(count, length=LENGTH, **terms)
    return rig, rig.vectors(3), ("client-001", "client-003")


@pytest.mark.parametrize(
    ("count", "terms"),
    [
        (4, {}),
        (5, {}),
        (12, {"threshold_numerator": 11, "threshold_denominator": 12}),
    ],
)
def test_all_but_two_colluding_learn_no_update(count: int, terms: dict[str, int]) -> None:
    rig, truth, victims = region(count, **terms)
    seen = play(rig, truth, victims)
    for victim in victims:
        assert not recovers(rig, seen, victim, truth[victim])
    # What the coalition does learn is the sum of the two, as the protocol promises.
    rest = np.sum([truth[name] for name in seen.colluders], axis=0, dtype=np.uint32)
    np.testing.assert_array_equal(seen.total - rest, truth[victims[0]] + truth[victims[1]])


def test_a_late_vector_of_a_client_called_dropped_stays_masked() -> None:
    """Its mask key is reconstructed, so only its self mask protects it (Bonawitz section 4)."""
    rig, truth, victims = region(5)
    seen = play(rig, truth, victims, dropped=victims[0])
    assert not recovers(rig, seen, victims[0], truth[victims[0]])


def test_the_attack_notices_when_masks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, truth, victims = region(5)
    with monkeypatch.context() as patch:
        patch.setattr("regionfed.secagg.client.apply_masks", lambda vector, streams: None)
        patch.setattr("regionfed.secagg.coordinator.apply_masks", lambda vector, streams: None)
        seen = play(rig, truth, victims)
    assert recovers(rig, seen, victims[0], truth[victims[0]])


def test_the_attack_notices_when_pair_masks_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, truth, victims = region(5)
    monkeypatch.setattr(
        "regionfed.secagg.client.apply_masks",
        lambda vector, streams: apply_masks(vector, streams[:1]),
    )
    seen = play(rig, truth, victims)
    assert recovers(rig, seen, victims[0], truth[victims[0]])


def test_the_attack_notices_when_self_masks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, truth, victims = region(5)
    with monkeypatch.context() as patch:
        patch.setattr(
            "regionfed.secagg.client.apply_masks",
            lambda vector, streams: apply_masks(vector, streams[1:]),
        )
        patch.setattr(
            "regionfed.secagg.coordinator.signed_sum", lambda total, config, clients: None
        )
        seen = play(rig, truth, victims, dropped=victims[0])
    assert recovers(rig, seen, victims[0], truth[victims[0]])


def test_as_many_colluders_as_the_threshold_do_learn_it() -> None:
    """The protocol's limit: t colluders hold t shares of everything. Documented, not hidden."""
    rig, truth, victims = region(6)
    assert rig.config.threshold(6) == 4
    seen = play(rig, truth, victims)
    assert recovers(rig, seen, victims[0], truth[victims[0]])
