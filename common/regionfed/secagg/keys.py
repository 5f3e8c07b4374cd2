"""X25519 agreement and HKDF-SHA256 derivation, with every use under its own label."""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from regionfed.secagg.errors import DuplicateKey, LowOrderKey, ShareUnreadable
from regionfed.secagg.wire import pack

KEY_BYTES = 32
MASK_LABEL = b"regionfed/mask/v1"
SELF_LABEL = b"regionfed/self-mask/v1"
SHARE_LABEL = b"regionfed/share/v1"

_FIELD_PRIME = (1 << 255) - 19
# u-coordinates of the points of order 1, 2, 4 and 8 of Curve25519 and of its twist.
_LOW_ORDER = frozenset(
    {
        0,
        1,
        _FIELD_PRIME - 1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    }
)
# Each share key encrypts one message, so a constant nonce never repeats under a key.
_SHARE_NONCE = bytes(12)


def derive_key(secret: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 without salt, 32 bytes (RFC 5869)."""
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def require_sound_key(public: bytes, *, owner: str) -> None:
    """Raise LowOrderKey unless the bytes are the one canonical form of a full-order point."""
    number = int.from_bytes(public, "little")
    if len(public) != KEY_BYTES or number >= _FIELD_PRIME or number in _LOW_ORDER:
        raise LowOrderKey(
            f"the X25519 key of {owner!r} is of low order or not canonical; any secret agreed "
            "with it would be known to all, so the round is refused"
        )


def require_sound_keys(keys: Mapping[str, bytes]) -> None:
    """Raise LowOrderKey or DuplicateKey, naming the owners, unless all keys are usable."""
    owners: dict[bytes, str] = {}
    for owner, public in keys.items():
        require_sound_key(public, owner=owner)
        if public in owners:
            raise DuplicateKey(
                f"{owner!r} and {owners[public]!r} have one and the same X25519 key; one of them "
                "is forged or copied"
            )
        owners[public] = owner


def agree(private: X25519PrivateKey, public: bytes, *, owner: str) -> bytes:
    """X25519; raises LowOrderKey when the result would be zero."""
    require_sound_key(public, owner=owner)
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise LowOrderKey(f"the X25519 key of {owner!r} gives no secret") from error


def pair_mask_key(
    private: X25519PrivateKey, public: bytes, *, owner: str, binding: bytes, pair: tuple[str, str]
) -> bytes:
    """AES key of the mask between two clients; `pair` in the order of the cohort."""
    info = MASK_LABEL + pack((binding, pair[0].encode(), pair[1].encode()))
    return derive_key(agree(private, public, owner=owner), info)


def self_mask_key(seed: bytes, *, binding: bytes, name: str) -> bytes:
    """AES key of a client's own mask."""
    return derive_key(seed, SELF_LABEL + pack((binding, name.encode())))


def seal_share(key: bytes, plain: bytes, *, binding: bytes) -> bytes:
    """AES-256-GCM; `key` must be used for this one message only."""
    return AESGCM(key).encrypt(_SHARE_NONCE, plain, binding)


def open_share(key: bytes, sealed: bytes, *, binding: bytes, sender: str) -> bytes:
    """Undo `seal_share`; raises ShareUnreadable when key, binding or bytes differ."""
    try:
        return AESGCM(key).decrypt(_SHARE_NONCE, sealed, binding)
    except (InvalidTag, ValueError) as error:
        raise ShareUnreadable(
            f"the share from {sender!r} does not open: it belongs to another round, sender or "
            "recipient, or was changed on the way"
        ) from error
