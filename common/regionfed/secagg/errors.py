"""One named error for each reason why secure aggregation refuses or aborts (privacy section 5).

Whoever catches one may be sure that no share and no sum left the process on that step.
"""

from __future__ import annotations

from regionfed.errors import SecureAggregationError


class ConfigurationInvalid(SecureAggregationError):
    """A secure-aggregation configuration contradicts itself or the rules of privacy section 5."""


class ConfigurationMismatch(SecureAggregationError):
    """A term (t, modulus, scale, clip, noise, ...) differs from the signed configuration."""


class CohortTooSmall(SecureAggregationError):
    """The cohort has fewer clients than the signed minimum."""


class TooFewSurvivors(SecureAggregationError):
    """Fewer clients than the threshold t are left; the round aborts and reveals nothing."""


class UnknownClient(SecureAggregationError):
    """A name that is not enrolled, not in the cohort, or not the one that was asked."""


class UnsignedKey(SecureAggregationError):
    """A round key, a receipt or an enrolment is not signed by the enrolled identity."""


class DuplicateKey(SecureAggregationError):
    """Two clients advertise the same key, or one client the same key twice."""


class LowOrderKey(SecureAggregationError):
    """An X25519 key of small order, or one that is not in its canonical form."""


class OwnKeyAltered(SecureAggregationError):
    """The roster returns this client's own advertisement changed or without it."""


class WrongContext(SecureAggregationError):
    """A message of another run, region, round or nonce."""


class ReplayedRound(SecureAggregationError):
    """A round that this client already opened with that nonce, or already answered."""


class StageRegression(SecureAggregationError):
    """A message that does not follow from the stage the round is in."""


class SecondUnmaskRequest(SecureAggregationError):
    """The shares of this round were already handed out once."""


class AliveAndDead(SecureAggregationError):
    """A client is named both as survivor and as dropped, or twice in one list."""


class RosterMismatch(SecureAggregationError):
    """The clients named in a message are not those of the roster that was masked under."""


class ShareIndexInvalid(SecureAggregationError):
    """A Shamir share with index 0, a duplicate index, or one that is not its holder's."""


class ShareLengthInvalid(SecureAggregationError):
    """A Shamir share that has not exactly the bytes of a field element."""


class ShareUnreadable(SecureAggregationError):
    """An encrypted share that does not open: of another round, sender, recipient, or changed."""


class KeyMismatch(SecureAggregationError):
    """A reconstructed key or seed is not the advertised one."""


class VectorInvalid(SecureAggregationError):
    """A vector of the wrong type, length, shape or memory layout."""


class NotFinite(SecureAggregationError):
    """A vector with NaN or infinity."""


class ValueOutOfRange(SecureAggregationError):
    """An encoded value, or a decoded sum, beyond the range in which the modulus cannot wrap."""


class MalformedMessage(SecureAggregationError):
    """Bytes that are not a message or a state of this protocol version."""
