"""The outcome of a check, and the stable codes that `docs/check-codes.md` explains."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from regionfed.errors import (
    ConfigError,
    DataError,
    IdentityError,
    ModelError,
    RegionFedError,
    StateError,
    TransportError,
)


class Code(StrEnum):
    """One kind of finding. Names never change their meaning."""

    OK = "ok"
    SKIPPED = "skipped"
    CONFIG_INVALID = "config-invalid"
    ADDRESS_MALFORMED = "address-malformed"
    ADDRESS_UNRESOLVED = "address-unresolved"
    ADDRESS_REFUSED = "address-refused"
    ADDRESS_TIMEOUT = "address-timeout"
    PEER_SILENT = "peer-silent"
    PEER_IS_PLAIN = "peer-is-plain"
    PEER_IS_TLS = "peer-is-tls"
    PEER_WANTS_CERTIFICATE = "peer-wants-certificate"
    CERTIFICATE_EXPIRED = "certificate-expired"
    CERTIFICATE_NOT_YET_VALID = "certificate-not-yet-valid"
    CERTIFICATE_NAME = "certificate-name"
    CERTIFICATE_UNKNOWN_CA = "certificate-unknown-ca"
    CERTIFICATE_REJECTED = "certificate-rejected"
    CERTIFICATE_ENDS_SOON = "certificate-ends-soon"
    IDENTITY_FILE = "identity-file"
    KEY_MODE = "key-mode"
    KEY_MISMATCH = "key-mismatch"
    IDENTITY_NAME = "identity-name"
    NODE_KEY_UNKNOWN = "node-key-unknown"
    CLOCK_SKEW = "clock-skew"
    VERSION_MISMATCH = "version-mismatch"
    DATA_MISSING = "data-missing"
    DISK_TOO_SMALL = "disk-too-small"
    MEMORY_TOO_SMALL = "memory-too-small"
    MODEL_INVALID = "model-invalid"
    PORT_TAKEN = "port-taken"
    FOLDER_NOT_WRITABLE = "folder-not-writable"


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found.

    `check` names what was looked at, `message` what was found, `fix` what to do about it (empty if
    there is nothing to do).
    """

    check: str
    code: Code
    status: Status
    message: str
    fix: str = ""

    @property
    def failed(self) -> bool:
        """Whether the run would fail because of this."""
        return self.status is Status.FAILED


def passed(check: str, message: str) -> CheckResult:
    """Nothing is wrong."""
    return CheckResult(check, Code.OK, Status.OK, message)


def failed(check: str, code: Code, message: str, *, fix: str) -> CheckResult:
    """The run would fail."""
    return CheckResult(check, code, Status.FAILED, message, fix)


def warned(check: str, code: Code, message: str, *, fix: str) -> CheckResult:
    """The run works now, but not for ever, or not for every model."""
    return CheckResult(check, code, Status.WARNING, message, fix)


def skipped(check: str, reason: str) -> CheckResult:
    """The check needs something that is not there; the reason says what."""
    return CheckResult(check, Code.SKIPPED, Status.SKIPPED, reason)


_ERRORS: dict[type[RegionFedError], frozenset[Code]] = {
    ConfigError: frozenset({Code.CONFIG_INVALID, Code.ADDRESS_MALFORMED}),
    DataError: frozenset({Code.DATA_MISSING}),
    ModelError: frozenset({Code.MODEL_INVALID, Code.MEMORY_TOO_SMALL}),
    StateError: frozenset({Code.DISK_TOO_SMALL, Code.FOLDER_NOT_WRITABLE}),
    IdentityError: frozenset(
        {
            Code.CERTIFICATE_EXPIRED,
            Code.CERTIFICATE_NOT_YET_VALID,
            Code.CERTIFICATE_NAME,
            Code.CERTIFICATE_UNKNOWN_CA,
            Code.CERTIFICATE_REJECTED,
            Code.CERTIFICATE_ENDS_SOON,
            Code.PEER_WANTS_CERTIFICATE,
            Code.IDENTITY_FILE,
            Code.KEY_MODE,
            Code.KEY_MISMATCH,
            Code.IDENTITY_NAME,
            Code.NODE_KEY_UNKNOWN,
            Code.CLOCK_SKEW,
        }
    ),
}


def error_of(result: CheckResult) -> RegionFedError:
    """The error that stops a process on a failed check; it carries the exit code."""
    for kind, codes in _ERRORS.items():
        if result.code in codes:
            return kind(_text(result))
    return TransportError(_text(result))


def exit_code(results: list[CheckResult]) -> int:
    """0 if nothing failed, else the exit code of the first failure (`docs/exit-codes.md`)."""
    return next((error_of(result).exit_code for result in results if result.failed), 0)


def _text(result: CheckResult) -> str:
    return f"[{result.code}] {result.check}: {result.message}; {result.fix}"
