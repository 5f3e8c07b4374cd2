"""Seeds that are equal in every process and on every machine."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: int | str) -> int:
    """A seed from what identifies a piece of work, for example (run seed, round, client name).

    Non-negative, below 2^63. Parts of different number, type or value give unrelated seeds.
    """
    text = "".join(f"{type(part).__name__}:{len(str(part))}:{part};" for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
