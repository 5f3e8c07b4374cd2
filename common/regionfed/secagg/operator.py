"""The operator's signing key: it signs configurations, and lives where no coordinator runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from regionfed.errors import IdentityError
from regionfed.secagg.config import SecAggConfig, SignedConfig
from regionfed.secagg.storage import read_private, write_private


@dataclass(frozen=True, slots=True)
class OperatorKey:
    """Ed25519 key pair whose public half every device gets at enrolment."""

    private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def create(cls) -> OperatorKey:
        """Fresh key from the operating system's generator."""
        return cls(Ed25519PrivateKey.generate())

    @property
    def public(self) -> Ed25519PublicKey:
        """What devices verify with."""
        return self.private.public_key()

    def sign(self, config: SecAggConfig) -> SignedConfig:
        """Sign the terms of a run."""
        return SignedConfig.sign(config, self.private)

    def save(self, path: Path) -> None:
        """Write the private key (mode 0600) and beside it the public one, as `.pub`, in hex."""
        if path.exists():
            raise IdentityError(f"{path}: exists already; remove it to make a new operator key")
        write_private(path, self.private.private_bytes_raw().hex().encode() + b"\n")
        public = self.public.public_bytes_raw().hex()
        path.with_name(path.name + ".pub").write_text(public + "\n")

    @classmethod
    def load(cls, path: Path) -> OperatorKey:
        """Read the private key; raises IdentityError."""
        try:
            raw = bytes.fromhex(read_private(path).decode())
            return cls(Ed25519PrivateKey.from_private_bytes(raw))
        except ValueError as error:
            raise IdentityError(f"{path}: not an operator key file") from error


def load_operator_public(path: Path) -> Ed25519PublicKey:
    """Read the public key that a device verifies configurations with; raises IdentityError."""
    try:
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(path.read_text()))
    except FileNotFoundError as error:
        raise IdentityError(f"{path}: no operator key; copy it from the enrolment") from error
    except ValueError as error:
        raise IdentityError(f"{path}: not an operator's public key (64 hex digits)") from error
