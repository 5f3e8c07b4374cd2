"""The server's part of a diagnosis: warm up, measure at one model, judge.

Warm-up rounds are plain FedAvg rounds with the run's own server optimiser. In the measuring
rounds the model does not move; each group's updates are averaged over them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from regionfed.config.federation import FederationConfig
from regionfed.diagnosis.report import DiagnosisReport, region_findings, thresholds_of
from regionfed.diagnosis.settings import (
    GROUPS,
    PHASE,
    SKETCH_ABOVE,
    SKETCH_WIDTH,
    WIDTH,
    DiagnosisSettings,
    require_diagnosable,
)
from regionfed.errors import DataError, QuorumError, UpdateError
from regionfed.messages import (
    GroupUpdates,
    RegionOrder,
    Vector,
    WireMessage,
    finite_vector,
)
from regionfed.method.chosen import optimizer_of
from regionfed.method.conflict import label_divergence
from regionfed.method.diagnose import Thresholds, diagnose
from regionfed.method.dispersion import RegionUnits
from regionfed.method.exact import ExactMean
from regionfed.method.router import PaperRouter, ResidualRouter, Router
from regionfed.method.server_opt import ServerState
from regionfed.method.vectors import weighted_mean
from regionfed.run.progress import ProgressEvent, ProgressSink
from regionfed.run.records import ConflictMatrix
from regionfed_server.exchange import Regions

logger = logging.getLogger(__name__)

MESSAGE_TYPE = f"train.{PHASE}"

_Taker = Callable[[str, GroupUpdates], None]


@dataclass
class _Measured:
    """Sums over the measuring rounds of one region."""

    vectors: npt.NDArray[np.float64]
    clients: npt.NDArray[np.float64]
    rounds: int = 1
    examples: int = 0
    labels: dict[str, float] = field(default_factory=dict)

    def units(self, name: str) -> RegionUnits:
        """The groups' means over the rounds."""
        return RegionUnits(
            name,
            (self.vectors / self.rounds).astype(np.float32),
            list(self.clients / self.rounds),
        )


@dataclass
class DiagnosisRun:
    """One diagnosis over the connected regions."""

    config: FederationConfig
    settings: DiagnosisSettings
    regions: Regions
    run: str
    theta: Vector
    buffers: Vector | None
    progress: ProgressSink

    def __post_init__(self) -> None:
        require_diagnosable(self.config)
        self.width = SKETCH_WIDTH if self.theta.size > SKETCH_ABOVE else 0
        self._measured: dict[str, _Measured] = {}
        self._left_out: dict[str, str] = {}
        self._bytes = 0
        self._losses: list[float] = []

    def execute(self) -> DiagnosisReport:
        """All rounds, and the verdicts.

        Raises:
            QuorumError: fewer regions than `server.min_regions` answered a round.
            DataError: fewer than two regions can be compared.
        """
        started = time.monotonic()
        self._tell(0, "start", "waiting for regions")
        self.regions.join()
        optimizer, state = optimizer_of(self.config.server), ServerState()
        for number in range(1, self.settings.warmup + 1):
            self._tell(number, "warm-up", "")
            mean = self._warm_up(number)
            self.theta, state = optimizer.step(self.theta, mean, state)
            self._tell(number, "done", f"loss {self._losses[-1]:.3f}")
        for number in range(self.settings.warmup + 1, self.settings.total + 1):
            self._tell(number, "measure", "")
            self._measure(number)
            self._tell(number, "done", f"loss {self._losses[-1]:.3f}")
        return self._judge(time.monotonic() - started)

    def _warm_up(self, number: int) -> Vector:
        """The mean update of one FedAvg round; buffers move with it."""
        mean = ExactMean(self.theta.size)
        buffers = None if self.buffers is None else ExactMean(self.buffers.size)
        by_examples = self.config.server.region_weights == "examples"

        def take(name: str, answer: GroupUpdates) -> None:
            vectors = _rows(answer, self.theta.size)
            update = weighted_mean(vectors, weights=answer.clients)
            weight = answer.examples if by_examples else 1
            if buffers is not None and self.buffers is not None:
                buffers.add(finite_vector("buffers", answer.buffers, self.buffers.size), weight)
            mean.add(update, weight)

        self._exchange(number, take=take, groups=1, width=0)
        if buffers is not None:
            self.buffers = buffers.mean()
        return mean.mean()

    def _measure(self, number: int) -> None:
        """One round at the same model, added to what is known of each group."""
        size = self.width or self.theta.size

        def take(name: str, answer: GroupUpdates) -> None:
            vectors = _rows(answer, size).astype(np.float64)
            clients = np.asarray(answer.clients, dtype=np.float64)
            known = self._measured.get(name)
            if known is None:
                self._measured[name] = _Measured(
                    vectors, clients, examples=answer.examples, labels=dict(answer.labels)
                )
                return
            if known.vectors.shape != vectors.shape:
                raise UpdateError(f"{len(vectors)} groups, {len(known.vectors)} before")
            known.vectors += vectors
            known.clients += clients
            known.rounds += 1

        self._exchange(number, take=take, groups=self.settings.groups, width=self.width)

    def _exchange(self, number: int, *, take: _Taker, groups: int, width: int) -> None:
        """Ask all regions; `take` sees each usable answer. Raises QuorumError for too few."""
        skipped: dict[str, str] = {}
        losses: list[float] = []

        def on_answer(name: str, answer: WireMessage) -> None:
            assert isinstance(answer, GroupUpdates)
            if answer.region != name or answer.round != number:
                raise UpdateError(f"an answer of {answer.region} for round {answer.round}")
            below = answer.report
            self._bytes += int(below.get("bytes_up", 0)) + int(below.get("bytes_down", 0))
            if answer.skipped:
                skipped[name] = answer.skipped
                return
            take(name, answer)
            losses.append(answer.loss)

        answers = self.regions.exchange(
            RegionOrder(
                run=self.run,
                round=number,
                rounds=self.settings.total,
                digest=self.regions.digest,
                layout=self.regions.layout,
                theta=self.theta,
                buffers=self.buffers,
                shared={GROUPS: groups, WIDTH: width},
            ),
            phase=MESSAGE_TYPE,
            reply=GroupUpdates,
            on_answer=on_answer,
        )
        self._bytes += answers.bytes_up + answers.bytes_down
        missing = {**skipped, **answers.left_out}
        for name, reason in missing.items():
            logger.warning("round %d: region %s left out: %s", number, name, reason)
            self._tell(number, "skipped", reason, region=name)
            self._left_out[name] = reason
        if len(losses) < self.config.server.min_regions:
            why = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
            raise QuorumError(
                f"{len(losses)} of {len(self.regions.names)} regions answered the diagnosis, the "
                f"quorum is {self.config.server.min_regions} ({why})"
            )
        self._losses.append(float(np.mean(losses)))

    def _judge(self, seconds: float) -> DiagnosisReport:
        names = [name for name in self.regions.names if name in self._measured]
        left_out = {n: r for n, r in self._left_out.items() if n not in self._measured}
        for name in list(names):
            if len(self._measured[name].vectors) < 2:
                names.remove(name)
                left_out[name] = (
                    "a single client shows no scatter, so chance and conflict look alike; two "
                    "or more clients are needed"
                )
        if len(names) < 2:
            why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
            raise DataError(
                f"a diagnosis compares regions with each other, and {len(names)} can be compared"
                + (f" ({why})" if why else "; configure at least two")
            )
        units = [self._measured[name].units(name) for name in names]
        limits = Thresholds()
        found = diagnose(
            units,
            divergences=self._divergences(names),
            sizes={name: float(self._measured[name].examples) for name in names},
            router=self._router(),
            thresholds=limits,
            seed=self.config.run.seed,
        )
        return DiagnosisReport(
            name=self.config.run.name,
            settings=self.settings,
            regions=region_findings(
                found,
                clients={u.name: (float(sum(u.clients)), len(u.clients)) for u in units},
                examples={name: self._measured[name].examples for name in names},
            ),
            matrix=ConflictMatrix(
                regions=tuple(names),
                distance=tuple(tuple(map(float, row)) for row in found.matrix.distances),
                cosine=tuple(tuple(map(float, row)) for row in found.matrix.cosines),
            ),
            mu=found.mu,
            losses=tuple(self._losses),
            parameters=self.theta.size,
            sketched=bool(self.width),
            left_out=left_out,
            bytes_moved=self._bytes,
            seconds=seconds,
            **thresholds_of(limits),
        )

    def _divergences(self, names: list[str]) -> dict[str, float]:
        """h_r by region; none where no task has classes."""
        everyone: dict[str, float] = {}
        for name in names:
            for label, count in self._measured[name].labels.items():
                everyone[label] = everyone.get(label, 0.0) + count
        labels = sorted(everyone)
        if not labels:
            return {}
        whole = [everyone[label] for label in labels]
        return {
            name: label_divergence(
                [self._measured[name].labels.get(label, 0.0) for label in labels], whole
            )
            for name in names
        }

    def _router(self) -> Router:
        """The configured Dynamic, or Residual's where the configuration fixes the strategy."""
        dynamic = self.config.method.dynamic
        paper = PaperRouter(
            tau_d=dynamic.conflict,
            tau_h=dynamic.divergence,
            size_ratio=dynamic.size_ratio,
            cooldown=dynamic.cooldown,
        )
        return (
            paper
            if self.config.method.strategy == "dynamic-paper"
            else ResidualRouter(fallback=paper)
        )

    def _tell(self, number: int, phase: str, message: str, *, region: str | None = None) -> None:
        self.progress(
            ProgressEvent(
                tier="server" if region is None else "coordinator",
                region=region,
                round=number,
                rounds=self.settings.total,
                phase=phase,
                message=message,
            )
        )


def _rows(answer: GroupUpdates, size: int) -> npt.NDArray[np.float32]:
    """The groups as rows, (q, size). Raises UpdateError for anything else."""
    count = len(answer.clients)
    if count < 1:
        raise UpdateError("an answer without groups")
    if not all(isinstance(c, int | float) and c > 0 for c in answer.clients):
        raise UpdateError("a group of no clients")
    return finite_vector("groups", answer.groups, count * size).reshape(count, size)
