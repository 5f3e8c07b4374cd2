"""From the survivors' shares to the masks that are left in the sum."""

from __future__ import annotations

from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from regionfed.secagg import shamir
from regionfed.secagg.coordinator_state import CoordinatorState
from regionfed.secagg.errors import KeyMismatch
from regionfed.secagg.graph import MaskGraph
from regionfed.secagg.keys import pair_mask_key, self_mask_key
from regionfed.secagg.masks import MaskStream
from regionfed.secagg.shares import commit


def removal_streams(
    state: CoordinatorState, graph: MaskGraph, *, binding: bytes
) -> list[MaskStream]:
    """The streams that clear the sum: self masks of survivors, pair masks towards the dropped.

    All secrets are reconstructed and checked against their advertisements before any is used.
    Raises KeyMismatch, naming the client whose shares do not fit.
    """
    streams = []
    for name in state.advertisements:
        if name in state.receipts:
            seed = _seed(state, graph, name)
            streams.append(MaskStream(self_mask_key(seed, binding=binding, name=name), True))
        else:
            streams += _dangling(state, graph, name, binding)
    return streams


def _combine(state: CoordinatorState, graph: MaskGraph, name: str) -> bytes:
    return shamir.combine(state.shares[name], threshold=graph.share_threshold)


def _seed(state: CoordinatorState, graph: MaskGraph, name: str) -> bytes:
    seed = _combine(state, graph, name)
    if commit(seed) != state.advertisements[name].seed_commitment:
        raise KeyMismatch(
            f"the reconstructed seed of {name!r} is not the one it committed to; a share is wrong, "
            "the round is abandoned"
        )
    return seed


def _dangling(
    state: CoordinatorState, graph: MaskGraph, name: str, binding: bytes
) -> Iterator[MaskStream]:
    private = X25519PrivateKey.from_private_bytes(_combine(state, graph, name))
    if private.public_key().public_bytes_raw() != state.advertisements[name].mask_key:
        raise KeyMismatch(
            f"the reconstructed key of {name!r} is not the advertised one; a share is wrong, the "
            "round is abandoned"
        )
    for other in graph.holders(name):
        if other in state.receipts:
            first = graph.index[other] < graph.index[name]
            pair = (other, name) if first else (name, other)
            key = pair_mask_key(
                private,
                state.advertisements[other].mask_key,
                owner=other,
                binding=binding,
                pair=pair,
            )
            # The survivor that comes first in the cohort added this mask: take it away.
            yield MaskStream(key, first)
