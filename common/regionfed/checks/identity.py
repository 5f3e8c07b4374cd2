"""Certificate and key files of this site, before anything is dialled."""

from __future__ import annotations

import datetime as dt
import stat
from pathlib import Path

from regionfed.checks.result import CheckResult, Code, failed, passed, skipped, warned
from regionfed.errors import IdentityError
from regionfed.identity.authority import load_certificate
from regionfed.identity.keys import load_key
from regionfed.identity.names import hosts_of, matches
from regionfed.secagg.identity import DeviceKeys

SOON = dt.timedelta(days=21)


def check_certificate_file(
    path: Path, *, what: str, hosts: tuple[str, ...] = (), now: dt.datetime | None = None
) -> CheckResult:
    """Whether a certificate of this site is readable, valid now, and covers `hosts`."""
    try:
        certificate = load_certificate(path)
    except IdentityError as error:
        return _unreadable(what, error)
    moment = now or dt.datetime.now(dt.UTC)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if ends <= moment:
        return failed(
            what,
            Code.CERTIFICATE_EXPIRED,
            f"{path} expired on {ends:%Y-%m-%d %H:%M} UTC; the clock here shows "
            f"{moment:%Y-%m-%d %H:%M} UTC",
            fix=f"`regionfed certs renew {path}` where the authority is, then restart the server",
        )
    if begins > moment:
        return failed(
            what,
            Code.CERTIFICATE_NOT_YET_VALID,
            f"{path} is not valid before {begins:%Y-%m-%d %H:%M} UTC; the clock here shows "
            f"{moment:%Y-%m-%d %H:%M} UTC",
            fix="set this host's clock right (NTP); it is behind the one that signed",
        )
    names = hosts_of(certificate.extensions)
    missing = [host for host in hosts if not matches(host, names)]
    if missing:
        return failed(
            what,
            Code.CERTIFICATE_NAME,
            f"{path} is for {', '.join(names) or 'no host'}, not for {', '.join(missing)}",
            fix="`regionfed certs server --force` with one --host for each name and address under "
            "which this server is dialled",
        )
    if ends - moment < SOON:
        return warned(
            what,
            Code.CERTIFICATE_ENDS_SOON,
            f"{path} ends on {ends:%Y-%m-%d %H:%M} UTC, in {(ends - moment).days} days",
            fix=f"`regionfed certs renew {path}` where the authority is",
        )
    return passed(what, f"{path} is valid until {ends:%Y-%m-%d}")


def check_key_pair(certificate: Path, key: Path, *, what: str) -> CheckResult:
    """Whether `key` is the private key of `certificate`, and nobody else may read it."""
    try:
        public, private = load_certificate(certificate).public_key(), load_key(key)
    except IdentityError as error:
        return _unreadable(what, error)
    if private.public_key() != public:
        return failed(
            what,
            Code.KEY_MISMATCH,
            f"{key} is not the key of {certificate}",
            fix="restore the pair from one backup, or make it again with `regionfed certs`",
        )
    return check_key_mode(key, what=what)


def check_key_mode(key: Path, *, what: str) -> CheckResult:
    """Whether a private key exists and is readable by its owner only."""
    if not key.exists():
        return failed(
            what,
            Code.IDENTITY_FILE,
            f"{key} does not exist",
            fix="make it with `regionfed certs`, or correct the path",
        )
    mode = stat.S_IMODE(key.stat().st_mode)
    if mode & 0o077:
        return failed(
            what,
            Code.KEY_MODE,
            f"{key} has mode {mode:04o}: others can read the private key",
            fix=f"chmod 600 {key}; if others had access, make a new key",
        )
    return passed(what, f"{key} is private")


def check_owner(device: Path, *, client: str, what: str) -> CheckResult:
    """Whether the identity folder with the key file `device` is that of `client`.

    The region goes by the name under which the node's key is registered, so a client with
    another's identity would be left out of every round; here it hears why.
    """
    if not device.exists():
        return skipped(what, f"there is no {device}, so nothing says whose identity this is")
    try:
        owner = DeviceKeys.load(device).name
    except IdentityError as error:
        return _unreadable(what, error)
    if owner != client:
        return failed(
            what,
            Code.IDENTITY_NAME,
            f"{device.parent} is the identity of {owner!r}, and this process is to be {client!r}",
            fix="mount the identity that this client made, or correct REGIONFED_CLIENT",
        )
    return passed(what, f"{device.parent} is the identity of {client}")


def check_clock_against(ca: Path, *, what: str, now: dt.datetime | None = None) -> CheckResult:
    """Whether the clock is at least past the time when the peer's authority was made."""
    try:
        begins = load_certificate(ca).not_valid_before_utc
    except IdentityError as error:
        return skipped(what, str(error))
    moment = now or dt.datetime.now(dt.UTC)
    if moment < begins:
        behind = int((begins - moment).total_seconds())
        return failed(
            what,
            Code.CLOCK_SKEW,
            f"the clock here is at least {behind} s behind: it shows {moment:%Y-%m-%d %H:%M} UTC, "
            f"but {ca} was made on {begins:%Y-%m-%d %H:%M} UTC",
            fix="set this host's clock right (NTP)",
        )
    return passed(what, f"the clock shows {moment:%Y-%m-%d %H:%M} UTC")


def _unreadable(what: str, error: IdentityError) -> CheckResult:
    return failed(
        what,
        Code.IDENTITY_FILE,
        str(error),
        fix="`regionfed certs show FOLDER` lists what a folder of certificates holds",
    )
