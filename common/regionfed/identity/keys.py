"""Private keys: of certificates (PKCS 8, P-384), and of nodes (OpenSSH, P-384, as Flower reads)."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from regionfed.errors import IdentityError
from regionfed.identity.files import private_folder, read_file, refuse_existing, write_file


def certificate_key() -> ec.EllipticCurvePrivateKey:
    """A fresh P-384 key."""
    return ec.generate_private_key(ec.SECP384R1())


def key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """PEM (PKCS 8) of a key, without a password: services start unattended, modes protect it."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def load_key(path: Path, *, what: str = "private key") -> ec.EllipticCurvePrivateKey:
    """Read a PEM key; `IdentityError` if it is missing, encrypted, or not an EC key."""
    content = read_file(path, what=what)
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise IdentityError(
            f"{path} is not an unencrypted PEM private key ({error}); make one with "
            "`regionfed certs server` or `regionfed certs request`"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(
            f"{path} holds a {type(key).__name__}; expected an elliptic-curve key (P-384)"
        )
    return key


def create_node_key(folder: Path, *, name: str, force: bool = False) -> tuple[Path, Path]:
    """Make the key pair with which a SuperNode signs in: `NAME` (0600) and `NAME.pub`.

    The private half stays in `folder`; the public half is handed to the SuperLink's owner, who
    registers it under `name`. Returns both paths. Raises `IdentityError` if one exists and `force`
    is not set.
    """
    check_node_name(name)
    private, public = folder / name, folder / f"{name}.pub"
    refuse_existing([private, public], force=force)
    private_folder(folder)
    key = certificate_key()
    write_file(
        private,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ),
        private=True,
    )
    line = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    write_file(public, line + b" " + name.encode() + b"\n", private=False)
    return private, public


def load_node_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a node's private key; `IdentityError` if it is not an OpenSSH elliptic-curve key."""
    content = read_file(path, what="node key")
    try:
        key = serialization.load_ssh_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise IdentityError(
            f"{path} is not an OpenSSH private key ({error}); make one with `regionfed certs node`"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(
            f"{path} holds a {type(key).__name__}; a node key is an elliptic-curve key (P-384), "
            "make one with `regionfed certs node`"
        )
    return key


def load_node_public_key(path: Path) -> ec.EllipticCurvePublicKey:
    """Read the public half of a node key; `IdentityError` if it is something else."""
    content = read_file(path, what="public node key")
    try:
        key = serialization.load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise IdentityError(
            f"{path} is not an OpenSSH public key ({error}); it is the NAME.pub that "
            "`regionfed certs node NAME` wrote"
        ) from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise IdentityError(f"{path} holds a {type(key).__name__}; expected an elliptic-curve key")
    return key


def check_node_name(name: str) -> None:
    """Raise `IdentityError` unless `name` is usable as a node's name and a file's name."""
    allowed = all(letter.isascii() and (letter.isalnum() or letter in "-_.") for letter in name)
    if not name or not allowed or name[0] in "-." or len(name) > 128:
        raise IdentityError(
            f"node name {name!r} is not allowed; use 1 to 128 letters, digits, '-', '_' and '.', "
            "beginning with a letter, a digit or '_'"
        )
