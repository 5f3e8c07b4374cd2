"""What a folder of identities holds, how long it lasts, and whether its modes are right."""

from __future__ import annotations

import datetime as dt
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from regionfed.errors import IdentityError
from regionfed.identity.authority import load_certificate
from regionfed.identity.certificates import load_request
from regionfed.identity.names import hosts_of


@dataclass(frozen=True, slots=True)
class Entry:
    """One file. `ends` is None for what has no expiry; `problem` is empty if all is well."""

    path: Path
    kind: str
    names: tuple[str, ...]
    ends: dt.datetime | None
    problem: str

    def days_left(self, now: dt.datetime) -> int | None:
        """Whole days until the end, negative once it has passed; None without an end."""
        return None if self.ends is None else (self.ends - now).days


def inventory(folder: Path, *, now: dt.datetime | None = None) -> list[Entry]:
    """Every certificate, request and key under `folder`, sorted by path.

    Raises `IdentityError` if there is no such folder.
    """
    if not folder.is_dir():
        raise IdentityError(f"{folder} is not a folder; `regionfed certs` writes one")
    moment = now or dt.datetime.now(dt.UTC)
    entries = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        if path.suffix in (".crt", ".pem"):
            entries.append(_certificate(path, moment))
        elif path.suffix == ".csr":
            entries.append(_request(path))
        elif path.suffix == ".pub" or path.name.endswith(".enrolment.json"):
            entries.append(Entry(path, "public key", (), None, ""))
        elif _is_private(path):
            entries.append(Entry(path, "private key", (), None, _mode_problem(path)))
    return entries


def _certificate(path: Path, now: dt.datetime) -> Entry:
    try:
        certificate = load_certificate(path)
    except IdentityError as error:
        return Entry(path, "certificate", (), None, str(error))
    problem = ""
    if certificate.not_valid_after_utc <= now:
        problem = "expired"
    elif certificate.not_valid_before_utc > now:
        problem = f"not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    kind = "authority" if _is_authority(certificate) else "certificate"
    names = tuple(hosts_of(certificate.extensions)) or (certificate.subject.rfc4514_string(),)
    return Entry(path, kind, names, certificate.not_valid_after_utc, problem)


def _request(path: Path) -> Entry:
    try:
        request = load_request(path)
    except IdentityError as error:
        return Entry(path, "request", (), None, str(error))
    return Entry(path, "request", tuple(hosts_of(request.extensions)), None, "")


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _is_private(path: Path) -> bool:
    if path.suffix == ".key" or path.name == "device.json":
        return True
    with path.open("rb") as stream:
        return stream.read(64).startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")


def _mode_problem(path: Path) -> str:
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"mode {mode:04o} lets others read it; chmod 600 {path}" if mode & 0o077 else ""
