"""Host names and addresses of a certificate (X.509 subject alternative names, RFC 5280)."""

from __future__ import annotations

import hashlib
import ipaddress
import re

from cryptography import x509
from cryptography.x509.oid import NameOID

from regionfed.errors import IdentityError

_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_COMMON_NAME_LIMIT = 64
"""Upper bound of a common name, ub-common-name of RFC 5280 appendix A."""


def alternative_names(hosts: list[str]) -> list[x509.GeneralName]:
    """Subject alternative names of `hosts`: IP addresses as such, everything else as DNS names.

    Raises `IdentityError` for an empty list or a name that DNS does not allow.
    """
    if not hosts:
        raise IdentityError(
            "a server certificate needs at least one host name or IP address; give --host NAME "
            "once for each name and address under which the server is dialled"
        )
    return [_general_name(host) for host in dict.fromkeys(hosts)]


def subject(name: str) -> x509.Name:
    """A subject whose common name is `name`, shortened to 64 characters.

    Nothing compares the common name: full names are in the subject alternative names. A
    shortened one ends in a hash of the full name, so that two long names stay apart.
    """
    if len(name) > _COMMON_NAME_LIMIT:
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        name = f"{name[: _COMMON_NAME_LIMIT - 13]}-{digest}"
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def hosts_of(extensions: x509.Extensions) -> list[str]:
    """The subject alternative names of a certificate or request, as strings; may be empty."""
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    ]


def matches(host: str, names: list[str]) -> bool:
    """Whether `host` is one of a certificate's `names`; `*.x` covers one label (RFC 6125)."""
    host = host.strip("[]").rstrip(".").lower()
    for name in names:
        candidate = name.rstrip(".").lower()
        if host == candidate:
            return True
        if candidate.startswith("*.") and host.partition(".")[2] == candidate[2:]:
            return True
    return False


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    labels = host.rstrip(".").removeprefix("*.").split(".")
    wrong = [label for label in labels if not _LABEL.fullmatch(label)]
    if wrong or len(host) > 253:
        raise IdentityError(
            f"{host!r} is neither an IP address nor a DNS name: labels have 1 to 63 letters, "
            "digits or hyphens, the whole at most 253 characters; write international names in "
            "their xn-- form and leave out port and scheme"
        )
    return x509.DNSName(host.rstrip("."))
