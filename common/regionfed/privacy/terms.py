"""What one region's clients are asked for in a run, with which bounds and which noise.

Computed from the configuration alone, so that every tier comes to the same terms by itself. A
channel is one kind of exchange in which clients send integers that are only ever summed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from regionfed.config.federation import FederationConfig
from regionfed.errors import ConfigError
from regionfed.privacy import gdp
from regionfed.privacy.budget import training_uses
from regionfed.privacy.events import (
    EvaluationMetrics,
    LookAheadUpdate,
    LossGrid,
    Noise,
    NoisedRelease,
    RegionalMeanRelease,
    TrainingUpdate,
    Unit,
)
from regionfed.privacy.ledger_records import LedgerTerms
from regionfed.privacy.mechanisms import rounded_clip_norm
from regionfed.privacy.metric_vector import metric_bound, metric_names
from regionfed.privacy.modes import Mode
from regionfed.privacy.skellam import share_variance, skellam_charged_multiplier
from regionfed.secagg.config import SCALE_LORA, Block, SecAggConfig
from regionfed.tasks.spec import TaskSpec

NO_DIRECTORY = bytes(32)
_LARGEST = 2**31 - 1


class Channel(StrEnum):
    """Exchanges in which clients send nothing but summed integers."""

    TRAIN = "train"
    LOOK_AHEAD = "look-ahead"
    LOSSES = "losses"
    METRICS = "metrics"


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
            self.secagg(Channel.TRAIN)

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
        return (*shared, "user") if self.config.client.user.enabled else shared

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

    def multiplier(self, channel: Channel) -> float:
        """Noise over exact sensitivity of a channel's release: what the ledger is charged."""
        section = self.config.privacy
        budget = section.budget
        if channel is Channel.METRICS:
            return math.sqrt(1.0 / (budget.evaluation_share * self._mu_squared))
        if channel is Channel.LOSSES:
            return math.sqrt(1.0 / (budget.loss_share * self._mu_squared))
        if section.noise_multiplier is not None:
            return section.noise_multiplier
        share = 1.0 - budget.evaluation_share - budget.loss_share
        uses = training_uses(self.config)
        return math.sqrt(uses / (share * self._mu_squared))

    def blocks(self, channel: Channel) -> tuple[Block, ...]:
        """The quantities of a channel with clip, scale and noise."""
        if not self.mode.per_client:
            return self._plain_blocks()
        length, clip, scale = self._shape(channel)
        sigma = self.multiplier(channel)
        effective = rounded_clip_norm(clip, dimension=length, scale=scale)
        if self.mode is not Mode.CLIENT_STRICT:
            noise = sigma * effective / clip
            return (Block(channel.value, length, clip, scale, noise_multiplier=noise),)
        variance = share_variance(
            noise_multiplier=self._skellam(sigma, length=length, clip=clip, scale=scale),
            clip_norm=clip,
            scale=scale,
            minimum_honest=self.config.privacy.minimum_honest or self.min_survivors,
        )
        return (Block(channel.value, length, clip, scale, device_noise_std=math.sqrt(variance)),)

    def secagg(self, channel: Channel, *, directory: bytes = NO_DIRECTORY) -> SecAggConfig:
        """The configuration that the operator signs; without masks it only says what is summed."""
        config = self._config(self.blocks(channel), directory)
        config.check_cohort(max(self.cohort, config.min_cohort) if not self.masked else self.cohort)
        return config

    def event(self, channel: Channel, *, round: int) -> NoisedRelease:
        """What the ledger is charged for a channel's release in a round."""
        noise = {Mode.CLIENT_STRICT: Noise.SKELLAM}.get(self.mode, Noise.GAUSSIAN)
        sigma = self.multiplier(channel)
        if channel is Channel.LOOK_AHEAD:
            return LookAheadUpdate(round=round, noise_multiplier=sigma, noise=noise)
        if channel is Channel.LOSSES:
            return LossGrid(round=round, noise_multiplier=sigma, noise=noise, points=len(self.rhos))
        if channel is Channel.METRICS:
            return EvaluationMetrics(
                round=round, noise_multiplier=sigma, noise=noise, values=self._shape(channel)[0]
            )
        if self.mode is Mode.PAPER:
            return RegionalMeanRelease(round=round, noise_multiplier=sigma)
        if self.mode is Mode.CLIENT_MF:
            noise = Noise.CORRELATED
        return TrainingUpdate(round=round, noise_multiplier=sigma, noise=noise, bands=self.bands)

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

    def _shape(self, channel: Channel) -> tuple[int, float, float]:
        """(length, clip, scale) of a channel in a per-client mode."""
        section = self.config.privacy
        if channel is Channel.METRICS:
            names = metric_names(self.tasks)
            levels = self.levels
            return len(names) * len(levels), metric_bound(len(levels)), SCALE_LORA
        if channel is Channel.LOSSES:
            return len(self.rhos) - 1, section.loss_clip, SCALE_LORA
        scale = float(1 << section.secure_aggregation.scale_bits)
        return self.dimension, section.clipping_norm, scale

    def _plain_blocks(self) -> tuple[Block, ...]:
        """Mode off under masks: nothing is clipped; the clip is the range that cannot wrap."""
        scale = float(1 << self.config.privacy.secure_aggregation.scale_bits)
        clip = math.floor(_LARGEST / max(self.cohort, 3) - 2) / scale
        update = Block(Channel.TRAIN.value, self.dimension, clip, scale)
        if not self.buffers:
            return (update,)
        return (update, Block("buffers", self.buffers, clip, scale))

    def _skellam(self, sigma: float, *, length: int, clip: float, scale: float) -> float:
        """The multiplier of Skellam noise whose charge is that of a Gaussian one of `sigma`."""
        multiplier = sigma
        for _ in range(50):
            charged = skellam_charged_multiplier(
                multiplier, clip_norm=clip, dimension=length, scale=scale
            )
            multiplier *= sigma / charged
        return multiplier * (1.0 + 1e-12)

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
