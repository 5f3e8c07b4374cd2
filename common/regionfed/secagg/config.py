"""The signed configuration: what is summed, in which units, and from how many clients at least."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from regionfed.secagg.errors import (
    CohortTooSmall,
    ConfigurationInvalid,
    ConfigurationMismatch,
    MalformedMessage,
    UnsignedKey,
    ValueOutOfRange,
)

MODULUS_BITS = 32
SCALE_FULL_MODEL = float(1 << 20)
SCALE_LORA = float(1 << 16)
# A device's noise beyond this many standard deviations is refused: it never happens (2e-23).
DEVICE_NOISE_TAIL = 10.0

_SIGNATURE_LABEL = b"regionfed/secagg-configuration/v1"


@dataclass(frozen=True, slots=True)
class Block:
    """One quantity in the summed vector, with its own clip: an update, a sketch, a count.

    `length` values per client, L2-clipped to `clip` (in the units of the values), times `scale`
    (integer steps per unit). `noise_multiplier` is what the coordinator will add to the sum;
    it is part of what the clients agreed to. `device_noise_std`, in integer steps, is the noise
    share that each client adds itself (mode client-strict), 0 otherwise.
    """

    name: str
    length: int
    clip: float
    scale: float
    noise_multiplier: float = 0.0
    device_noise_std: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.clip, self.scale, self.noise_multiplier, self.device_noise_std)
        if not self.name or self.length < 1 or not all(math.isfinite(value) for value in numbers):
            raise ConfigurationInvalid(
                f"block {self.name!r}: needs a name, a length of at least 1 and finite numbers; "
                f"got length {self.length} and {numbers}"
            )
        if self.clip <= 0 or self.scale <= 0 or min(numbers) < 0:
            raise ConfigurationInvalid(
                f"block {self.name!r}: clip and scale must be positive, noise not negative; "
                f"got {numbers}"
            )

    @property
    def bound(self) -> int:
        """Largest magnitude one client's encoded value can have, in integer steps."""
        return (
            math.floor(self.clip * self.scale)
            + 1
            + math.ceil(DEVICE_NOISE_TAIL * self.device_noise_std)
        )

    @property
    def effective_clip(self) -> float:
        """L2 sensitivity after rounding, C*(1 + sqrt(d)/(s*C)) (privacy section 5)."""
        return self.clip + math.sqrt(self.length) / self.scale


@dataclass(frozen=True, slots=True)
class SecAggConfig:
    """Terms of a whole run, signed by the operator and pinned by every client.

    `directory` is the digest of the enrolled identities. t = ceil(n * threshold_numerator /
    threshold_denominator), at least ceil(2n/3). Up to `complete_limit` clients all pairs share
    masks; above, each client has `neighbours` of them (even).
    """

    blocks: tuple[Block, ...]
    directory: bytes
    min_cohort: int = 3
    threshold_numerator: int = 2
    threshold_denominator: int = 3
    complete_limit: int = 100
    neighbours: int = 100
    modulus_bits: int = MODULUS_BITS

    def __post_init__(self) -> None:
        names = [block.name for block in self.blocks]
        if not names or len(set(names)) != len(names):
            raise ConfigurationInvalid(f"blocks need distinct names, got {names}")
        if len(self.directory) != 32:
            raise ConfigurationInvalid("directory must be the 32-byte digest of the enrolled keys")
        if self.min_cohort < 3:
            raise ConfigurationInvalid(
                f"min_cohort = {self.min_cohort}: with fewer than 3 clients a sum is as good as "
                "an update; set at least 3"
            )
        if not (
            2 * self.threshold_denominator
            <= 3 * self.threshold_numerator
            <= 3 * self.threshold_denominator
        ):
            raise ConfigurationInvalid(
                f"threshold {self.threshold_numerator}/{self.threshold_denominator} must lie in "
                "[2/3, 1]"
            )
        if self.modulus_bits != MODULUS_BITS:
            raise ConfigurationInvalid(
                f"modulus_bits = {self.modulus_bits}: only {MODULUS_BITS} is built"
            )
        if self.neighbours < 20 or self.neighbours % 2 or self.complete_limit < 3:
            raise ConfigurationInvalid(
                f"neighbours = {self.neighbours} must be even and at least 20, complete_limit = "
                f"{self.complete_limit} at least 3"
            )

    @property
    def length(self) -> int:
        """Length of the masked vector: that of all blocks together."""
        return sum(block.length for block in self.blocks)

    def slices(self) -> Iterator[tuple[Block, slice]]:
        """Each block with its place in the vector."""
        start = 0
        for block in self.blocks:
            yield block, slice(start, start + block.length)
            start += block.length

    def threshold(self, clients: int) -> int:
        """t for a group of this many clients, at least ceil(2n/3) and at least 2."""
        return max(2, -(-clients * self.threshold_numerator // self.threshold_denominator))

    def check_cohort(self, clients: int) -> None:
        """Raise CohortTooSmall below the minimum, ValueOutOfRange if the sum could wrap."""
        if clients < self.min_cohort:
            raise CohortTooSmall(
                f"{clients} clients in the cohort, the signed minimum is {self.min_cohort}; "
                "wait for more clients"
            )
        largest = 2 ** (self.modulus_bits - 1) - 1
        for block in self.blocks:
            if clients * block.bound > largest:
                raise ValueOutOfRange(
                    f"block {block.name!r}: {clients} clients times {block.bound} steps can pass "
                    f"{largest} and wrap; use a scale below {largest / clients / block.clip:.6g} "
                    "or fewer clients"
                )

    def to_bytes(self) -> bytes:
        """Canonical JSON: what is signed."""
        fields = asdict(self) | {"directory": self.directory.hex()}
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> SecAggConfig:
        """Undo `to_bytes`; raises MalformedMessage or ConfigurationInvalid."""
        try:
            fields = json.loads(data)
            blocks = tuple(Block(**block) for block in fields.pop("blocks"))
            directory = bytes.fromhex(fields.pop("directory"))
            config = cls(blocks=blocks, directory=directory, **fields)
            canonical = config.to_bytes()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise MalformedMessage(f"not a secure-aggregation configuration: {error}") from error
        if canonical != data:
            raise MalformedMessage("a configuration that is not in its canonical form")
        return config

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.to_bytes()).digest()

    def terms(self, clients: int) -> bytes:
        """The terms of one round in plain words, as the mask request repeats them (JSON)."""
        terms: dict[str, Any] = {
            "threshold": self.threshold(clients),
            "modulus_bits": self.modulus_bits,
            "min_cohort": self.min_cohort,
        }
        for block in self.blocks:
            terms |= {f"{block.name}.{key}": value for key, value in asdict(block).items()}
        return json.dumps(terms, sort_keys=True, separators=(",", ":")).encode()

    def check_terms(self, announced: bytes, *, clients: int) -> None:
        """Raise ConfigurationMismatch, naming the term, if a round announces other terms."""
        try:
            given = json.loads(announced)
        except ValueError as error:
            raise MalformedMessage("the round's terms are not JSON") from error
        signed = json.loads(self.terms(clients))
        if not isinstance(given, dict):
            raise MalformedMessage("the round's terms are not a table")
        for key in sorted(signed.keys() | given.keys()):
            if key not in given or key not in signed or given[key] != signed[key]:
                raise ConfigurationMismatch(
                    f"{key}: {signed.get(key, 'absent')} in the signed configuration, "
                    f"{given.get(key, 'absent')} in this round; refuse, and ask the operator to "
                    "sign a configuration for a new run"
                )


@dataclass(frozen=True, slots=True)
class SignedConfig:
    """A configuration and the operator's Ed25519 signature over it."""

    config: SecAggConfig
    signature: bytes

    @classmethod
    def sign(cls, config: SecAggConfig, operator: Ed25519PrivateKey) -> SignedConfig:
        """Sign with the operator's key, whose public half every client has from enrolment."""
        return cls(config, operator.sign(_SIGNATURE_LABEL + config.to_bytes()))

    def verify(self, operator: Ed25519PublicKey) -> SecAggConfig:
        """Return the configuration, or raise UnsignedKey."""
        try:
            operator.verify(self.signature, _SIGNATURE_LABEL + self.config.to_bytes())
        except InvalidSignature as error:
            raise UnsignedKey(
                "the configuration is not signed by the operator key of the enrolment; a term "
                "was changed or another operator signed it"
            ) from error
        return self.config
