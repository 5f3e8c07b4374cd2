"""Server and client certificates: made in one place, or by request so that the key stays home."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from regionfed.errors import IdentityError
from regionfed.identity.authority import Authority, Purpose, load_certificate
from regionfed.identity.files import private_folder, read_file, refuse_existing, write_file
from regionfed.identity.keys import certificate_key, key_bytes, load_key
from regionfed.identity.names import alternative_names, hosts_of, subject

CERTIFICATE_DAYS = 397


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of a certificate and of its private key."""

    certificate: Path
    key: Path


def pair(folder: Path, name: str) -> Pair:
    """Where the certificate and key called `name` lie in `folder`."""
    return Pair(certificate=folder / f"{name}.crt", key=folder / f"{name}.key")


def create_certificate(
    authority: Authority,
    folder: Path,
    *,
    name: str,
    hosts: list[str],
    purpose: Purpose,
    days: int = CERTIFICATE_DAYS,
    force: bool = False,
) -> Pair:
    """Make a key and its certificate in `folder` as `NAME.crt` and `NAME.key`.

    `hosts` are the names and addresses that a server certificate is valid for; a client
    certificate may have none. Raises `IdentityError` for a bad host or an existing file.
    """
    files = pair(folder, name)
    refuse_existing([files.certificate, files.key], force=force)
    names = alternative_names(hosts) if hosts or purpose == "server" else []
    key = certificate_key()
    certificate = authority.issue(
        name=subject(hosts[0] if purpose == "server" else name),
        public_key=key.public_key(),
        alternative_names=names,
        purpose=purpose,
        days=days,
    )
    private_folder(folder)
    write_file(files.key, key_bytes(key), private=True)
    write_file(
        files.certificate, certificate.public_bytes(serialization.Encoding.PEM), private=False
    )
    return files


def create_request(
    folder: Path, *, name: str, hosts: list[str], force: bool = False
) -> tuple[Path, Path]:
    """Write a signing request `NAME.csr`, with the key `NAME.key` that never leaves `folder`.

    An existing key is used again (renewal), unless `force` makes a fresh one. Returns the paths of
    request and key. Raises `IdentityError` for a bad host.
    """
    names = alternative_names(hosts) if hosts else []
    private_folder(folder)
    key_path, request_path = folder / f"{name}.key", folder / f"{name}.csr"
    if key_path.exists() and not force:
        key = load_key(key_path)
    else:
        key = certificate_key()
        write_file(key_path, key_bytes(key), private=True)
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        subject(hosts[0] if hosts else name)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    request = builder.sign(key, hashes.SHA384())
    write_file(request_path, request.public_bytes(serialization.Encoding.PEM), private=False)
    return request_path, key_path


def load_request(path: Path) -> x509.CertificateSigningRequest:
    """Read a signing request; `IdentityError` if it is malformed or not signed by its own key."""
    content = read_file(path, what="signing request")
    try:
        request = x509.load_pem_x509_csr(content)
    except ValueError as error:
        raise IdentityError(
            f"{path} is not a PEM signing request ({error}); expected the NAME.csr that "
            "`regionfed certs request` wrote"
        ) from error
    if not request.is_signature_valid:
        raise IdentityError(f"{path} was changed after its owner signed it; ask for a new one")
    return request


def sign_request(
    authority: Authority,
    request: x509.CertificateSigningRequest,
    target: Path,
    *,
    allowed_hosts: list[str],
    purpose: Purpose,
    days: int = CERTIFICATE_DAYS,
    force: bool = False,
) -> None:
    """Sign a request whose every name is in `allowed_hosts`, and write the certificate.

    The signer says what a site may be called; the request alone does not, or one region could
    ask for another's name. Raises `IdentityError` that lists the names which are not allowed.
    """
    hosts = hosts_of(request.extensions)
    foreign = [host for host in hosts if host not in allowed_hosts]
    if foreign:
        raise IdentityError(
            f"the request asks for {', '.join(foreign)}, which was not allowed; if that site may "
            f"use the name, repeat with {' '.join(f'--allow {host}' for host in foreign)}"
        )
    if purpose == "server" and not hosts:
        raise IdentityError(
            "the request names no host, so no server could use its certificate; have it made "
            "again with `regionfed certs request --host NAME`"
        )
    public_key = request.public_key()
    if not isinstance(public_key, ec.EllipticCurvePublicKey):
        raise IdentityError(
            f"the request is for a {type(public_key).__name__}; expected an elliptic-curve key"
        )
    refuse_existing([target], force=force)
    certificate = authority.issue(
        name=request.subject,
        public_key=public_key,
        alternative_names=alternative_names(hosts) if hosts else [],
        purpose=purpose,
        days=days,
    )
    write_file(target, certificate.public_bytes(serialization.Encoding.PEM), private=False)


def renew_certificate(authority: Authority, path: Path, *, days: int = CERTIFICATE_DAYS) -> None:
    """Replace the certificate at `path` by one with the same key, names and purpose.

    The key is untouched, so whoever trusts the authority notices nothing; a running server has to
    be restarted to send the new one. Raises `IdentityError` if another authority signed it.
    """
    old = load_certificate(path)
    if old.issuer != authority.certificate.subject:
        raise IdentityError(
            f"{path} was signed by {old.issuer.rfc4514_string()}, not by "
            f"{authority.certificate.subject.rfc4514_string()}; renew it with its own authority"
        )
    public_key = old.public_key()
    if not isinstance(public_key, ec.EllipticCurvePublicKey):
        raise IdentityError(f"{path} holds a {type(public_key).__name__}; make a new certificate")
    hosts = hosts_of(old.extensions)
    certificate = authority.issue(
        name=old.subject,
        public_key=public_key,
        alternative_names=alternative_names(hosts) if hosts else [],
        purpose=purpose_of(old),
        days=days,
    )
    write_file(path, certificate.public_bytes(serialization.Encoding.PEM), private=False)


def purpose_of(certificate: x509.Certificate) -> Purpose:
    """Whether a certificate is for a server or for a client of mutual TLS."""
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return "server" if ExtendedKeyUsageOID.SERVER_AUTH in usage else "client"
