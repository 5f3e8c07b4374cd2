"""A device's long-lived keys, and the directory of those that are enrolled.

Ed25519 signs the round keys, X25519 receives encrypted shares. Both are made on the device; only
the public halves, proven by a signature, enter the directory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from regionfed.errors import IdentityError
from regionfed.secagg.errors import DuplicateKey, UnknownClient, UnsignedKey
from regionfed.secagg.keys import require_sound_keys
from regionfed.secagg.storage import read_private, write_private
from regionfed.secagg.wire import pack

_LABEL = b"regionfed/enrolment/v1"


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Public half of a device: its name, Ed25519 and X25519 keys (32 bytes each), and proof."""

    name: str
    identity: bytes
    agreement: bytes
    signature: bytes

    def verify(self, message: bytes, signature: bytes, *, what: str) -> None:
        """Raise UnsignedKey unless this identity signed the message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.identity).verify(signature, message)
        except (InvalidSignature, ValueError) as error:
            raise UnsignedKey(
                f"{what} of {self.name!r} is not signed by its enrolled identity; someone "
                "exchanged it, or the device was enrolled again without telling the others"
            ) from error


def _enrolment_bytes(name: str, identity: bytes, agreement: bytes) -> bytes:
    return _LABEL + pack((name.encode(), identity, agreement))


@dataclass(frozen=True, slots=True)
class DeviceKeys:
    """The private half; it never leaves the device."""

    name: str
    identity: Ed25519PrivateKey = field(repr=False)
    agreement: X25519PrivateKey = field(repr=False)

    @classmethod
    def create(cls, name: str) -> DeviceKeys:
        """Fresh keys from the operating system's generator."""
        return cls(name, Ed25519PrivateKey.generate(), X25519PrivateKey.generate())

    @property
    def enrolment(self) -> Enrolment:
        """What the operator puts into the directory."""
        identity = self.identity.public_key().public_bytes_raw()
        agreement = self.agreement.public_key().public_bytes_raw()
        signature = self.identity.sign(_enrolment_bytes(self.name, identity, agreement))
        return Enrolment(self.name, identity, agreement, signature)

    def save(self, path: Path) -> None:
        """Write the key file with mode 0600; raises IdentityError rather than replace one."""
        if path.exists():
            raise IdentityError(f"{path}: exists already; remove it to enrol this device anew")
        record = {
            "name": self.name,
            "identity": self.identity.private_bytes_raw().hex(),
            "agreement": self.agreement.private_bytes_raw().hex(),
        }
        write_private(path, json.dumps(record).encode())

    @classmethod
    def load(cls, path: Path) -> DeviceKeys:
        """Read a key file; raises IdentityError when absent, damaged or readable by others."""
        data = read_private(path)
        try:
            record = json.loads(data)
            return cls(
                str(record["name"]),
                Ed25519PrivateKey.from_private_bytes(bytes.fromhex(record["identity"])),
                X25519PrivateKey.from_private_bytes(bytes.fromhex(record["agreement"])),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise IdentityError(f"{path}: not a device key file; enrol the device anew") from error


@dataclass(frozen=True, slots=True)
class Directory:
    """The enrolled devices of a region, by name."""

    entries: Mapping[str, Enrolment]

    @classmethod
    def of(cls, enrolments: Iterable[Enrolment]) -> Directory:
        """Check every proof and that no name or key occurs twice.

        Raises UnsignedKey, DuplicateKey or LowOrderKey.
        """
        entries: dict[str, Enrolment] = {}
        for entry in enrolments:
            if entry.name in entries:
                raise DuplicateKey(f"{entry.name!r} is enrolled twice; keep one entry")
            entry.verify(
                _enrolment_bytes(entry.name, entry.identity, entry.agreement),
                entry.signature,
                what="the enrolment",
            )
            entries[entry.name] = entry
        ordered = {name: entries[name] for name in sorted(entries)}
        require_sound_keys({name: entry.agreement for name, entry in ordered.items()})
        if len({entry.identity for entry in ordered.values()}) != len(ordered):
            raise DuplicateKey("two devices are enrolled with one identity; enrol one anew")
        return cls(MappingProxyType(ordered))

    def __getitem__(self, name: str) -> Enrolment:
        try:
            return self.entries[name]
        except KeyError:
            raise UnknownClient(
                f"{name!r} is not among the {len(self.entries)} enrolled devices; enrol it first"
            ) from None

    @property
    def digest(self) -> bytes:
        """SHA-256 over all entries in order of name: what the configuration refers to."""
        rows = (
            pack((entry.name.encode(), entry.identity, entry.agreement))
            for entry in self.entries.values()
        )
        return hashlib.sha256(b"regionfed/directory/v1" + pack(rows)).digest()

    def to_json(self) -> str:
        """The directory file: public keys and proofs in hex, by name."""
        table = {
            name: {
                "identity": entry.identity.hex(),
                "agreement": entry.agreement.hex(),
                "signature": entry.signature.hex(),
            }
            for name, entry in self.entries.items()
        }
        return json.dumps(table, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Directory:
        """Read a directory file; raises IdentityError when it is none, or as `of` does."""
        try:
            return cls.of(
                Enrolment(
                    name,
                    bytes.fromhex(row["identity"]),
                    bytes.fromhex(row["agreement"]),
                    bytes.fromhex(row["signature"]),
                )
                for name, row in json.loads(text).items()
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IdentityError(f"not a directory of enrolled devices: {error}") from error
