"""A private certificate authority in a folder: `ca.crt` (public) and `ca.key` (stays there)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from regionfed.errors import IdentityError
from regionfed.identity.files import (
    private_folder,
    read_file,
    refuse_existing,
    write_file,
)
from regionfed.identity.keys import certificate_key, key_bytes, load_key
from regionfed.identity.names import subject

Purpose = Literal["server", "client"]
AUTHORITY_DAYS = 3650
BACKDATE = dt.timedelta(minutes=5)
"""Certificates start this much earlier than the clock of the machine that signs them."""

_EXTENDED_USAGE = {
    "server": ExtendedKeyUsageOID.SERVER_AUTH,
    "client": ExtendedKeyUsageOID.CLIENT_AUTH,
}


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate and the key that signs with it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def issue(
        self,
        *,
        name: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        alternative_names: Sequence[x509.GeneralName],
        purpose: Purpose,
        days: int,
    ) -> x509.Certificate:
        """Sign a certificate that ends after `days`, but never after the authority's own.

        Raises `IdentityError` if the authority itself has expired.
        """
        now = dt.datetime.now(dt.UTC)
        end = self.certificate.not_valid_after_utc
        if end <= now:
            raise IdentityError(
                f"the authority expired on {end:%Y-%m-%d %H:%M} UTC; make a new one with "
                "`regionfed certs init-ca --force` and hand its ca.crt to every peer"
            )
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.certificate.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(max(now - BACKDATE, self.certificate.not_valid_before_utc))
            .not_valid_after(min(now + dt.timedelta(days=days), end))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_EXTENDED_USAGE[purpose]]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        if alternative_names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternative_names), critical=False
            )
        return builder.sign(self.key, hashes.SHA384())


def create_authority(
    folder: Path, *, name: str, days: int = AUTHORITY_DAYS, force: bool = False
) -> Authority:
    """Make an authority for one site and store it in `folder`.

    It can sign end certificates only (path length 0). Raises `IdentityError` if the folder
    already holds one and `force` is not set.
    """
    certificate_path, key_path = folder / "ca.crt", folder / "ca.key"
    refuse_existing([certificate_path, key_path], force=force)
    private_folder(folder)
    key = certificate_key()
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject(name))
        .issuer_name(subject(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    write_file(key_path, key_bytes(key), private=True)
    write_file(
        certificate_path, certificate.public_bytes(serialization.Encoding.PEM), private=False
    )
    return Authority(certificate=certificate, key=key)


def load_authority(folder: Path) -> Authority:
    """Read the authority in `folder`; `IdentityError` if it is missing or does not fit together."""
    certificate = load_certificate(folder / "ca.crt")
    key = load_key(folder / "ca.key", what="the authority's key")
    if certificate.public_key() != key.public_key():
        raise IdentityError(
            f"{folder / 'ca.key'} is not the key of {folder / 'ca.crt'}; restore the pair from "
            "one backup, or make a new authority"
        )
    return Authority(certificate=certificate, key=key)


def load_certificate(path: Path) -> x509.Certificate:
    """Read one PEM certificate; `IdentityError` if the file is missing or holds something else."""
    content = read_file(path, what="certificate")
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError as error:
        raise IdentityError(
            f"{path} is not a PEM certificate ({error}); expected a file that begins with "
            "-----BEGIN CERTIFICATE-----"
        ) from error


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
