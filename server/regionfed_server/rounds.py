"""A global run from its first round to its result: the protocol of one round, top to bottom."""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from regionfed.config.federation import FederationConfig
from regionfed.errors import BudgetExhausted, QuorumError, RunFailed
from regionfed.flower.ask import Answers
from regionfed.messages import RegionOrder, RegionScores, RegionUpdate, WireMessage
from regionfed.method.chosen import optimizer_of
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent, ProgressSink
from regionfed.run.records import (
    ConflictMatrix,
    EvaluateRecord,
    HopBytes,
    LeftOutClient,
    PrivacyRecord,
    RegionRound,
    RoundRecord,
    SkippedRegion,
    Traffic,
)
from regionfed.tasks.spec import TaskSpec
from regionfed_server.aggregate import Insight, Releases, insight, shared_scalars
from regionfed_server.exchange import Regions
from regionfed_server.rivals import RivalStep
from regionfed_server.scores import level_scores, personalise_record
from regionfed_server.state import GlobalState

logger = logging.getLogger(__name__)


@dataclass
class _Round:
    """What one round came to, for its record."""

    number: int
    started: float
    phases: dict[str, float] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    answered: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOutClient] = field(default_factory=list)
    reports: dict[str, RegionUpdate] = field(default_factory=dict)
    insight: Insight = field(default_factory=Insight)
    alphas: dict[str, float] = field(default_factory=dict)

    def hop(self, answers: Answers, reports: dict[str, dict[str, Any]]) -> None:
        """Count the bytes of one exchange on both hops, and who was left out below."""
        below = reports.values()
        self.traffic += Traffic(
            server_coordinator=HopBytes(up=answers.bytes_up, down=answers.bytes_down),
            coordinator_client=HopBytes(
                up=sum(int(r.get("bytes_up", 0)) for r in below),
                down=sum(int(r.get("bytes_down", 0)) for r in below),
            ),
        )
        self.left_out += [
            LeftOutClient(region=region, client=client, reason=str(reason))
            for region, report in sorted(reports.items())
            for client, reason in sorted(dict(report.get("left_out", {})).items())
        ]


@dataclass
class GlobalRun:
    """One run: its regions, its folder, and the state that moves from round to round."""

    config: FederationConfig
    regions: Regions
    folder: RunFolder
    tasks: tuple[TaskSpec, ...]
    initial: GlobalState
    progress: ProgressSink
    rival: RivalStep = field(default_factory=RivalStep)

    def __post_init__(self) -> None:
        self.optimizer = optimizer_of(self.config.server)
        self.store = self.folder.checkpoints(self.config.run.keep_checkpoints)
        self.metrics = self.folder.metrics()
        self.stopped = ""
        """Why the run ended before its last round, where the privacy budget ended it."""
        self.notes: dict[str, None] = {}
        """What regions said about their promise, in order and once each."""

    def execute(self) -> GlobalState:
        """All rounds that are left, from the newest checkpoint on.

        Raises:
            RunFailed: too many rounds in a row under the quorum of regions.
        """
        state = self._resume()
        self._tell(state.round, "start", "waiting for regions")
        joined = self.regions.join()
        self._tell(state.round, "joined", f"{len(joined)} of {len(self.regions.names)} regions")
        if self._due(state.round) and not self._evaluated(state.round):
            # The evaluation of the last checkpoint is what a crash cut off.
            self._evaluate(state, _Round(state.round, time.monotonic()))
        failed = 0
        number = state.round
        while number < self.config.run.rounds:
            number += 1
            current = _Round(number, time.monotonic())
            try:
                state = self._round(state, current)
                failed = 0
            except BudgetExhausted as error:
                self._stop(state, current, str(error))
                break
            except QuorumError as error:
                failed += 1
                logger.error("round %d: %s", number, error)
                self._tell(number, "skipped", str(error))
                if failed >= self.config.server.max_failed_rounds:
                    raise RunFailed(
                        f"{failed} rounds in a row had too few regions; the last: {error}"
                    ) from error
                state = replace(state, round=number)
            self._record(current, state)
        self._tell(number, "done", self.stopped)
        return state

    def _stop(self, state: GlobalState, current: _Round, reason: str) -> None:
        """End at the last round that the budget could pay: its model is evaluated as the last."""
        self.stopped = reason
        logger.warning("the run ends after round %d: %s", state.round, reason)
        self._record(current, state)
        if state.round > 0:
            self._evaluate(state, _Round(state.round, time.monotonic()), final=True)

    def _round(self, state: GlobalState, current: _Round) -> GlobalState:
        """Train, aggregate, step, checkpoint, and evaluate where it is due."""
        mark = time.monotonic()
        self._tell(current.number, "train", "")
        releases = Releases(
            state.theta.size,
            0 if state.buffers is None else state.buffers.size,
            control=state.control is not None,
            sketch_width=self.config.privacy.sketch_width,
        )
        try:
            self._train(state, current, releases)
            current.phases["train"] = time.monotonic() - mark
            mark = time.monotonic()
            state = self._step(state, current, releases)
        finally:
            releases.close()
        current.phases["aggregate"] = time.monotonic() - mark
        mark = time.monotonic()
        # Before the checkpoint: a round that is repeated writes a record that replaces this one.
        self._record(current, state)
        self._save(state)
        current.phases["checkpoint"] = time.monotonic() - mark
        if self._due(current.number):
            mark = time.monotonic()
            self._evaluate(state, current)
            current.phases["evaluate"] = time.monotonic() - mark
        return state

    def _due(self, number: int) -> bool:
        """Whether the models are evaluated after this round."""
        if number == 0:
            return False
        every = self.config.run.evaluate_every
        return number == self.config.run.rounds or bool(every and number % every == 0)

    def _evaluated(self, number: int) -> bool:
        return any(
            isinstance(record, EvaluateRecord) and record.round == number
            for record in self.metrics.read()
        )

    def _train(self, state: GlobalState, current: _Round, releases: Releases) -> None:
        """Ask all regions for their release; raises QuorumError below the quorum of regions."""

        def on_answer(name: str, answer: WireMessage) -> None:
            assert isinstance(answer, RegionUpdate)
            releases.add(name, answer, round=current.number)
            self._charges(name, answer.report)
            self._tell(current.number, "trained", answer.skipped, region=name)

        answers = self.regions.exchange(
            replace(self._order(state, current.number), control=state.control),
            phase="train",
            reply=RegionUpdate,
            on_answer=on_answer,
        )
        current.reports = dict(sorted(releases.reports.items()))
        current.skipped = {**releases.skipped, **answers.left_out}
        current.answered = [n for n in answers.answered if n not in releases.skipped]
        current.hop(answers, {n: r.report for n, r in current.reports.items()})
        needed = self.config.server.min_regions
        if len(current.answered) < needed:
            why = "; ".join(f"{name}: {reason}" for name, reason in current.skipped.items())
            if any(reason.startswith("budget:") for reason in current.skipped.values()):
                raise BudgetExhausted(
                    f"the privacy budget of too many regions is spent for round {current.number} "
                    f"({why}); the model of round {state.round} stands"
                )
            raise QuorumError(
                f"{len(current.answered)} of {len(self.regions.names)} regions took part, the "
                f"quorum is {needed} ({why})"
            )

    def _charges(self, region: str, report: dict[str, Any]) -> None:
        """Keep what a region charged to its ledger, and what it says about its promise."""
        for charge in report.get("privacy", ()):
            known = {name: charge[name] for name in PrivacyRecord.model_fields if name in charge}
            self.metrics.append(PrivacyRecord(region=region, **known))
        for note in report.get("notes", ()):
            self.notes.setdefault(str(note))

    def _step(self, state: GlobalState, current: _Round, releases: Releases) -> GlobalState:
        """theta_{t+1} from the mean release, and the scalars that the next orders carry."""
        mean = releases.mean.mean()
        current.insight = insight(releases, mean)
        theta, optimizer = self.optimizer.step(state.theta, mean, state.optimizer)
        stepped = replace(
            state,
            round=current.number,
            theta=theta,
            optimizer=optimizer,
            buffers=None if releases.buffers is None else releases.buffers.mean(),
            mean_update=mean if self.optimizer.sends_update else None,
            shared=shared_scalars(state.shared, releases, current.insight),
        )
        return self.rival.finish(state, stepped, releases)

    def _evaluate(self, state: GlobalState, current: _Round, *, final: bool = False) -> None:
        """Ask all regions for scores; the last round also finds each region's own part."""
        self._tell(current.number, "evaluate", "")
        scores: dict[str, RegionScores] = {}

        def on_answer(name: str, answer: WireMessage) -> None:
            assert isinstance(answer, RegionScores)
            scores[name] = answer
            self._charges(name, answer.report)
            if gate := answer.personal.get("gate"):
                self.notes.setdefault(str(gate))
            self._tell(current.number, "evaluated", answer.skipped, region=name)

        answers = self.regions.exchange(
            self._order(
                state, current.number, final=final or state.round >= self.config.run.rounds
            ),
            phase="evaluate",
            reply=RegionScores,
            on_answer=on_answer,
        )
        scores = dict(sorted(scores.items()))
        current.hop(answers, {name: answer.report for name, answer in scores.items()})
        for name, reason in answers.left_out.items():
            logger.warning("round %d: no scores of region %s: %s", current.number, name, reason)
        for name, answer in scores.items():
            if "alpha" in answer.personal:
                current.alphas[name] = float(answer.personal["alpha"])
            record = personalise_record(answer)
            if record is not None:
                self.metrics.append(record)
        for level, found in level_scores(self.tasks, scores).items():
            self.metrics.append(EvaluateRecord(round=current.number, level=level, scores=found))
            self._tell(current.number, "scores", f"{level} {found.overall:.3f}")

    def _order(self, state: GlobalState, number: int, *, final: bool = False) -> RegionOrder:
        return RegionOrder(
            run=state.run,
            round=number,
            rounds=self.config.run.rounds,
            digest=self.regions.digest,
            layout=self.regions.layout,
            theta=state.theta,
            final=final,
            buffers=state.buffers,
            mean_update=state.mean_update,
            shared=state.shared,
        )

    def _resume(self) -> GlobalState:
        """The state of the newest checkpoint, or the initial one, made durable as round 0."""
        checkpoint = self.store.load_latest()
        if checkpoint is not None:
            state = GlobalState.restore(
                checkpoint, layout=self.regions.layout, digest=self.regions.digest
            )
            logger.info("resuming after round %d", state.round)
            return state
        self._save(self.initial)
        return self.initial

    def _save(self, state: GlobalState) -> None:
        state.save(self.store, layout=self.regions.layout, digest=self.regions.digest)

    def _record(self, current: _Round, state: GlobalState) -> None:
        found = current.insight
        total = sum(r.weight for n, r in current.reports.items() if n in current.answered)
        self.metrics.append(
            RoundRecord(
                round=current.number,
                seconds=time.monotonic() - current.started,
                phases=current.phases,
                traffic=current.traffic,
                answered=tuple(current.answered),
                skipped=tuple(
                    SkippedRegion(region=n, reason=r) for n, r in sorted(current.skipped.items())
                ),
                left_out=tuple(current.left_out),
                regions={
                    name: RegionRound(
                        weight=current.reports[name].weight / total,
                        clients=current.reports[name].report.get("clients"),
                        exchanges=current.reports[name].report.get("exchanges"),
                        loss=current.reports[name].report.get("loss"),
                        conflict=found.conflicts.get(name),
                        alpha=current.alphas.get(name),
                    )
                    for name in current.answered
                },
                mu=state.shared.get("mu"),
                conflict_matrix=None
                if found.matrix is None
                else ConflictMatrix(
                    regions=tuple(found.conflicts),
                    distance=tuple(tuple(map(float, row)) for row in found.matrix.distances),
                    cosine=tuple(tuple(map(float, row)) for row in found.matrix.cosines),
                ),
            )
        )

    def _tell(self, number: int, phase: str, message: str, *, region: str | None = None) -> None:
        self.progress(
            ProgressEvent(
                tier="server" if region is None else "coordinator",
                region=region,
                round=number,
                rounds=self.config.run.rounds,
                phase=phase,
                message=message,
            )
        )


def new_run_id() -> str:
    """A name for a run that no other run has; jobs of regions are named after it."""
    return uuid.uuid4().hex[:12]
