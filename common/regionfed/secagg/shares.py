"""A client's two secrets of a round, shared among its neighbours and sealed for each of them.

A sealed pair is encrypted under a key agreed between the sender's one-time share key and the
recipient's enrolled agreement key, and bound to round, cohort, sender and recipient.
"""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from regionfed.secagg import shamir
from regionfed.secagg.errors import ShareIndexInvalid, ShareLengthInvalid
from regionfed.secagg.graph import MaskGraph
from regionfed.secagg.identity import Enrolment
from regionfed.secagg.keys import SHARE_LABEL, agree, derive_key, open_share, seal_share
from regionfed.secagg.wire import pack_int, unpack_int


def commit(seed: bytes) -> bytes:
    """Commitment to a self-mask seed: SHA-256, hiding since the seed is 32 random bytes."""
    return hashlib.sha256(b"regionfed/seed/v1" + seed).digest()


def make_shares(
    graph: MaskGraph, name: str, *, seed: bytes, mask_private: bytes
) -> dict[str, bytes]:
    """For each holder its index, a share of the seed and a share of the mask key, in the clear."""
    holders = graph.holders(name)
    indices = [graph.index[holder] for holder in holders]
    threshold = graph.share_threshold
    seeds = shamir.split(seed, threshold=threshold, indices=indices)
    keys = shamir.split(mask_private, threshold=threshold, indices=indices)
    return {
        holder: pack_int(index) + seeds[index] + keys[index]
        for holder, index in zip(holders, indices, strict=True)
    }


def parse_shares(plain: bytes, *, index: int, sender: str) -> tuple[bytes, bytes]:
    """Seed share and key share; raises ShareLengthInvalid, or ShareIndexInvalid if not `index`."""
    if len(plain) != 8 + 2 * shamir.SHARE_BYTES:
        raise ShareLengthInvalid(f"the shares from {sender!r} have {len(plain)} bytes")
    given = unpack_int(plain[:8])
    if given != index:
        raise ShareIndexInvalid(
            f"the share from {sender!r} has index {given}, this client's is {index}"
        )
    first, second = plain[8 : 8 + shamir.SHARE_BYTES], plain[8 + shamir.SHARE_BYTES :]
    shamir.require_share(first)
    shamir.require_share(second)
    return first, second


def seal(private: X25519PrivateKey, holder: Enrolment, plain: bytes, *, binding: bytes) -> bytes:
    """Encrypt one holder's pair; `private` is the one-time share key of this round."""
    secret = agree(private, holder.agreement, owner=holder.name)
    return seal_share(derive_key(secret, SHARE_LABEL + binding), plain, binding=binding)


def unseal(
    private: X25519PrivateKey,
    share_key: bytes,
    sealed: bytes,
    *,
    binding: bytes,
    sender: str,
    index: int,
) -> tuple[bytes, bytes]:
    """Decrypt the pair from `sender` with the holder's enrolled agreement key.

    Raises ShareUnreadable, ShareIndexInvalid, ShareLengthInvalid or LowOrderKey.
    """
    secret = agree(private, share_key, owner=sender)
    key = derive_key(secret, SHARE_LABEL + binding)
    plain = open_share(key, sealed, binding=binding, sender=sender)
    return parse_shares(plain, index=index, sender=sender)
