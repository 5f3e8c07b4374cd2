"""What one region's clients are asked for in a run, with which bounds and which noise.

Computed from the configuration alone, so that every tier comes to the same terms by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from regionfed.config.federation import FederationConfig
from regionfed.errors import ConfigError
from regionfed.privacy import gdp
from regionfed.privacy.adaptive_clip import CLIP_BIT_SENSITIVITY
from regionfed.privacy.blocks import Shape, noised_block, plain_blocks, skellam_block
from regionfed.privacy.budget import training_uses
from regionfed.privacy.charges import release_event
from regionfed.privacy.events import Noise, NoisedRelease, RegionalMeanRelease, Unit
from regionfed.privacy.ledger_records import LedgerTerms
from regionfed.privacy.metric_vector import metric_bound, metric_names
from regionfed.privacy.modes import Mode
from regionfed.privacy.quantities import (
    ONCE,
    Beside,
    Channel,
    Quantity,
    beside,
    histogram_labels,
    share,
)
from regionfed.secagg.config import SCALE_LORA, Block, SecAggConfig
from regionfed.tasks.spec import TaskSpec

NO_DIRECTORY = bytes(32)
_WHOLE_EXAMPLES = 1.0
"""Steps per example in the sum of dataset sizes."""


@dataclass(frozen=True, kw_only=True)
class RegionTerms:
    """One region's terms. `dimension` is d, `buffers` their number, `clients` those enrolled."""

    config: FederationConfig
    dimension: int
    clients: int
    buffers: int = 0
    tasks: tuple[TaskSpec, ...] = ()

    def __post_init__(self) -> None:
        if self.mode.private and self.buffers:
            raise ConfigError(
                f"privacy.mode = '{self.mode}' and a model with {self.buffers} averaged buffer "
                "values (BatchNorm): running statistics of a client's data have no noise of their "
                "own; use a model with GroupNorm or LayerNorm, or privacy.mode = 'off'"
            )
        allowed = self.config.privacy.budget.max_participations
        rounds = self.config.run.rounds
        if self.mode.per_client and rounds * self.cohort > allowed * self.clients:
            raise ConfigError(
                f"{rounds} rounds that ask {self.cohort} of {self.clients} clients need more than "
                f"the {allowed} participations that each client grants; lower run.rounds or "
                "coordinator.cohort, or raise privacy.budget.max_participations"
            )
        if self.mode is Mode.CLIENT_MF and rounds > 1 and self.clients // self.cohort < self.bands:
            raise ConfigError(
                f"privacy.mode = 'client-mf' needs clients that return after {self.bands} rounds "
                f"or later, but {self.cohort} of {self.clients} are asked each round; set "
                f"coordinator.cohort <= {self.clients // self.bands} or lower privacy.bands"
            )

    def check(self) -> None:
        """Raise ConfigError or SecureAggregationError for sums that cannot be taken."""
        if self.sums_only:
            self.secagg(Channel.FIRST if self.asks_once else Channel.TRAIN)

    @property
    def mode(self) -> Mode:
        """The mode of the configuration."""
        return Mode(self.config.privacy.mode)

    @property
    def masked(self) -> bool:
        """Whether sums are taken under secure aggregation."""
        return self.config.privacy.secure_aggregation.enabled

    @property
    def sums_only(self) -> bool:
        """Whether clients send integers to be summed and nothing else about their data."""
        return self.mode.per_client or self.masked

    @property
    def cohort(self) -> int:
        """Clients asked per round."""
        asked = self.config.coordinator.cohort
        return min(asked, self.clients) if asked else self.clients

    @property
    def expected(self) -> int:
        """The public divisor of a private sum."""
        return self.config.privacy.expected_cohort or self.cohort

    @property
    def bands(self) -> int:
        """Bands of correlated noise, 1 where it is independent."""
        return self.config.privacy.bands if self.mode is Mode.CLIENT_MF else 1

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels that the noised scores cover."""
        shared = ("global",) if self.config.method.regional == "none" else ("global", "regional")
        # theta_u is made of training rows without the noise of DP-SGD; where that is promised, even
        # its noised scores would be a second, uncounted use of them.
        user = self.config.serves_users and not self.config.privacy.example_level
        return (*shared, "user") if user else shared

    @property
    def rhos(self) -> tuple[float, ...]:
        """Values of rho at which noised losses are asked for; the first is 0."""
        rho = self.config.method.rho
        if self.config.method.strategy in ("residual", "dynamic"):
            return (0.0, 1.0)
        return tuple(rho.high * step / 10 for step in range(11))

    @property
    def min_survivors(self) -> int:
        """t: the fewest clients of a full cohort that a masked sum opens with."""
        return self._config((), NO_DIRECTORY).threshold(self.cohort)

    @cached_property
    def _mu_squared(self) -> float:
        """mu^2 that the whole budget buys under the accountant that binds."""
        budget = self.config.privacy.budget
        if self.mode is not Mode.CLIENT_STRICT:
            return gdp.epsilon_to_mu(budget.epsilon, budget.delta) ** 2
        low, high = 0.0, gdp.epsilon_to_mu(budget.epsilon, budget.delta)
        for _ in range(100):
            middle = (low + high) / 2
            if gdp.rdp_to_epsilon(middle, budget.delta) > budget.epsilon:
                high = middle
            else:
                low = middle
        return low**2

    @cached_property
    def beside(self) -> Beside:
        """What the training vector carries beside the update."""
        if not self.mode.per_client:
            return Beside((), {})
        return beside(self.config, cohort=self.cohort, tasks=self.tasks)

    @property
    def asks_once(self) -> bool:
        """Whether the region's first training vector carries more than the later ones."""
        return any(quantity in ONCE for quantity in self.beside.asked)

    def quantities(self, channel: Channel) -> tuple[Quantity, ...]:
        """What a channel's vector consists of, in order."""
        if not channel.trains:
            return (Quantity(channel.value),)
        first = channel is Channel.FIRST
        return (Quantity.UPDATE, *(q for q in self.beside.asked if first or q not in ONCE))

    def multiplier(self, quantity: Quantity) -> float:
        """Noise over exact sensitivity of a quantity's release: what the ledger is charged."""
        section, budget = self.config.privacy, self.config.privacy.budget
        if quantity in (Quantity.UPDATE, Quantity.LOOK_AHEAD):
            if section.noise_multiplier is not None:
                return section.noise_multiplier
            others = sum(share(self.config, asked) for asked in self.beside.asked)
            part = 1.0 - budget.evaluation_share - budget.loss_share - others
            return math.sqrt(training_uses(self.config) / (part * self._mu_squared))
        uses = 1
        if quantity in (Quantity.SKETCH, Quantity.CLIP_BIT):
            uses = min(budget.max_participations, self.config.run.rounds)
        return math.sqrt(uses / (share(self.config, quantity) * self._mu_squared))

    def blocks(self, channel: Channel) -> tuple[Block, ...]:
        """A channel's quantities with clip, scale and noise, in order."""
        if not self.mode.per_client:
            scale = float(1 << self.config.privacy.secure_aggregation.scale_bits)
            return plain_blocks(
                Quantity.UPDATE.value,
                dimension=self.dimension,
                buffers=self.buffers,
                scale=scale,
                cohort=self.cohort,
            )
        return tuple(self._block(quantity) for quantity in self.quantities(channel))

    def secagg(self, channel: Channel, *, directory: bytes = NO_DIRECTORY) -> SecAggConfig:
        """The configuration that the operator signs; without masks it only says what is summed."""
        config = self._config(self.blocks(channel), directory)
        config.check_cohort(max(self.cohort, config.min_cohort) if not self.masked else self.cohort)
        return config

    def events(self, channel: Channel, *, round: int) -> dict[Quantity, NoisedRelease]:
        """What the ledger is charged for a channel's releases in a round."""
        return {q: self.event(q, round=round) for q in self.quantities(channel)}

    def event(self, quantity: Quantity, *, round: int) -> NoisedRelease:
        """What the ledger is charged for one quantity's release in a round."""
        sigma = self.multiplier(quantity)
        if self.mode is Mode.PAPER:
            return RegionalMeanRelease(round=round, noise_multiplier=sigma)
        noise = Noise.SKELLAM if self.mode is Mode.CLIENT_STRICT else Noise.GAUSSIAN
        if self.mode is Mode.CLIENT_MF and quantity is Quantity.UPDATE:
            noise = Noise.CORRELATED
        return release_event(
            quantity,
            round=round,
            multiplier=sigma,
            noise=noise,
            bands=self.bands,
            length=self.shape(quantity).length,
        )

    def ledger(self, region: str) -> LedgerTerms:
        """The terms of the region's ledger."""
        budget = self.config.privacy.budget
        if self.mode is Mode.PAPER:
            return LedgerTerms(
                region=region, epsilon=math.inf, delta=budget.delta, unit=Unit.REGION
            )
        return LedgerTerms(
            region=region,
            epsilon=budget.epsilon,
            delta=budget.delta,
            max_participations=budget.max_participations,
            min_separation=self.separation,
        )

    @property
    def separation(self) -> int:
        """Rounds between two participations of a client."""
        return max(self.config.privacy.budget.min_separation, self.bands)

    def shape(self, quantity: Quantity) -> Shape:
        """Length, clip and scale of a quantity in a per-client mode.

        With adaptive clipping the clip of an update and of its sketch is in units in which the
        C in force is the configured one, so that the signed terms hold for the whole run.
        """
        section = self.config.privacy
        fine = float(1 << section.secure_aggregation.scale_bits)
        match quantity:
            case Quantity.UPDATE | Quantity.LOOK_AHEAD:
                return Shape(self.dimension, section.clipping_norm, fine)
            case Quantity.SKETCH:
                return Shape(section.sketch_width, section.clipping_norm, fine)
            case Quantity.CLIP_BIT:
                return Shape(1, CLIP_BIT_SENSITIVITY, SCALE_LORA)
            case Quantity.LABELS:
                # A client's label shares, so that each counts once, however many rows it has.
                return Shape(len(histogram_labels(self.tasks)), 1.0, SCALE_LORA)
            case Quantity.SIZE:
                return Shape(1, section.size_clip, _WHOLE_EXAMPLES)
            case Quantity.LOSSES:
                return Shape(len(self.rhos) - 1, section.loss_clip, SCALE_LORA)
            case Quantity.METRICS:
                levels = len(self.levels)
                return Shape(
                    len(metric_names(self.tasks)) * levels, metric_bound(levels), SCALE_LORA
                )

    def _block(self, quantity: Quantity) -> Block:
        shape, sigma = self.shape(quantity), self.multiplier(quantity)
        if self.mode is not Mode.CLIENT_STRICT:
            return noised_block(quantity.value, shape, multiplier=sigma)
        honest = self.config.privacy.minimum_honest or self.min_survivors
        return skellam_block(quantity.value, shape, multiplier=sigma, minimum_honest=honest)

    def _config(self, blocks: Sequence[Block], directory: bytes) -> SecAggConfig:
        secure = self.config.privacy.secure_aggregation
        share = max(Fraction(2, 3), Fraction(secure.threshold).limit_denominator(1000))
        return SecAggConfig(
            blocks=tuple(blocks) or (Block("none", 1, 1.0, 1.0),),
            directory=directory,
            min_cohort=secure.min_cohort,
            threshold_numerator=share.numerator,
            threshold_denominator=share.denominator,
        )


def asked_at_the_end(terms: RegionTerms, *, works: bool) -> tuple[Channel, ...]:
    """The charged channels after the last round; `works`: the strategy needs a look-ahead."""
    budget = terms.config.privacy.budget
    wanted = {
        Channel.LOOK_AHEAD: works,
        Channel.LOSSES: budget.loss_share > 0,
        Channel.METRICS: budget.evaluation_share > 0,
    }
    return tuple(channel for channel, asked in wanted.items() if asked)
