"""The privacy modes: what each protects against whom, and the line each puts into a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from regionfed.errors import ConfigError
from regionfed.privacy.accountant import Spent, epsilon, spend
from regionfed.privacy.events import Event, RawQuery, RegionalMeanRelease, Unit


class Mode(StrEnum):
    """`privacy.mode` in the configuration."""

    CLIENT = "client"
    CLIENT_MF = "client-mf"
    CLIENT_STRICT = "client-strict"
    PAPER = "paper"
    OFF = "off"

    @property
    def private(self) -> bool:
        """Whether anything is noised."""
        return self is not Mode.OFF

    @property
    def per_client(self) -> bool:
        """Whether each client clips on its device, so that epsilon protects one client."""
        return self in (Mode.CLIENT, Mode.CLIENT_MF, Mode.CLIENT_STRICT)


@dataclass(frozen=True)
class ModeInfo:
    """One paragraph: what the mode does, whom it protects, and against whom."""

    unit: Unit | None
    summary: str
    explanation: str


MODES: Mapping[Mode, ModeInfo] = MappingProxyType(
    {
        Mode.CLIENT: ModeInfo(
            Unit.CLIENT,
            "client-level differential privacy, noise added by the coordinator",
            "Each client clips its update to C on the device, the updates are summed under secure "
            "aggregation, and the region's coordinator adds Gaussian noise of sigma*C to the sum. "
            "It protects one client's whole data over the whole run against the global server, "
            "the other regions, the other clients and everyone who sees the models. The "
            "coordinator sees the un-noised sum and who took part, and nothing finer; it must be "
            "trusted to add the noise.",
        ),
        Mode.CLIENT_MF: ModeInfo(
            Unit.CLIENT,
            "client-level differential privacy with noise correlated over the rounds",
            "As mode client, but the noise of one round partly cancels that of earlier rounds "
            "(banded matrix factorisation), which about halves the error of the model at the same "
            "epsilon when clients take part at least 10 rounds apart. It protects the same clients "
            "against the same parties. The coordinator also keeps the past noise vectors, which "
            "are as secret as the un-noised sums.",
        ),
        Mode.CLIENT_STRICT: ModeInfo(
            Unit.CLIENT,
            "client-level differential privacy, noise added by the clients before masking",
            "Each client adds its share of Skellam noise before masking, so that not even the "
            "coordinator ever holds an un-noised sum. It protects one client's whole data against "
            "the coordinator too, as long as at least the configured minimum of honest clients "
            "survives; clients that collude with the coordinator take their shares of the noise "
            "away. The price is a looser account (Renyi) and more noise than needed when more "
            "clients survive than the minimum.",
        ),
        Mode.PAPER: ModeInfo(
            Unit.REGION,
            "the published scheme: clip and noise the regional mean",
            "The coordinator clips the mean of its clients to C and adds noise of sigma*C. This "
            "hides the contribution of a whole region, not of a client: one client can move a "
            "clipped mean by 2C however many clients there are. The coordinator is trusted with "
            "everything. It exists to reproduce the published experiments; any un-noised query "
            "beside it (Interp, Meta, the search for rho, the intent histogram) makes its epsilon "
            "infinite.",
        ),
        Mode.OFF: ModeInfo(
            None,
            "no noise",
            "Nothing is clipped for privacy and nothing is noised. Data stays on the devices, but "
            "models and updates can reveal it. With secure aggregation on, the coordinator still "
            "sees only sums.",
        ),
    }
)


def parse_mode(name: str) -> Mode:
    """The mode called `name`; raises ConfigError listing the modes otherwise."""
    try:
        return Mode(name)
    except ValueError as error:
        raise ConfigError(
            f"privacy.mode = {name!r} is unknown; use one of {', '.join(Mode)}"
        ) from error


def report_line(
    mode: Mode,
    events: Sequence[Event] = (),
    *,
    delta: float = 1e-5,
    budget: float | None = None,
    max_participations: int | None = None,
) -> str:
    """What a report says about privacy, computed from the events of the region's ledger."""
    if mode is Mode.OFF:
        return (
            "privacy off: no noise was added and no epsilon holds; "
            "whoever sees the models or updates may learn about the data"
        )
    if mode is Mode.PAPER:
        return _paper_line(events, delta=delta)
    return _client_line(
        mode,
        spend(events, delta=delta, max_participations=max_participations),
        budget=budget,
    )


def _number(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.4g}"


def _client_line(mode: Mode, spent: Spent, *, budget: float | None) -> str:
    line = (
        f"mode {mode}, one client's whole data, delta {spent.delta:g}: "
        f"epsilon {_number(spent.eps_coordinator)}"
    )
    if budget is not None and math.isfinite(budget):
        left = max(0.0, budget - spent.eps_coordinator)
        line += f" of {budget:g} spent, {_number(left)} left"
    return (
        f"{line}; outside the region epsilon {_number(spent.eps_external)} "
        f"({spent.external_reason}); Renyi accountant {_number(spent.eps_rdp)}"
    )


def _paper_line(events: Sequence[Event], *, delta: float) -> str:
    raw = sorted({event.what for event in events if isinstance(event, RawQuery)})
    releases = [event for event in events if isinstance(event, RegionalMeanRelease)]
    if raw:
        return (
            "mode paper (region-level): epsilon infinite, because un-noised data left the "
            f"clients: {', '.join(raw)}"
        )
    region = spend(releases, delta=delta, unit=Unit.REGION)
    line = (
        f"mode paper (region-level, delta {delta:g}): epsilon "
        f"{region.eps_coordinator:.3f} for a region that joins every round"
    )
    settings = {(e.noise_multiplier, e.sample_rate) for e in releases}
    if len(settings) == 1:
        sigma, rate = next(iter(settings))
        if rate < 1.0:
            # One client moves a clipped mean by 2C, hence half the multiplier.
            client = epsilon(
                noise_multiplier=sigma / 2.0, sample_rate=rate, rounds=len(releases), delta=delta
            )
            line += (
                f"; {client:.4f} for one client only if each round drew clients by secret "
                f"Poisson sampling at rate {rate:g}"
            )
    return line + "; infinite once a raw Interp, Meta, rho or histogram query runs"
