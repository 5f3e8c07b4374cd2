"""What each tier shows to Prometheus. Read from what the tier has made durable, at each scrape.

Nothing is counted in memory, so a restart loses nothing and a dead process shows its last progress
(case 35). The names are a contract with `deploy/grafana/regionfed.json`; a test compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regionfed.bridge.api import BridgeStatus
from regionfed.errors import RegionFedError
from regionfed.run.folder import RunFolder
from regionfed.run.records import EvaluateRecord, PrivacyRecord, RoundRecord

PREFIX = "regionfed_"

METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "round": ("Last round that is done.", ()),
    "rounds_planned": ("Rounds of the run.", ()),
    "round_seconds": ("Wall time of the last round.", ()),
    "phase_seconds": ("Seconds of the last round by phase.", ("phase",)),
    "bytes_total": ("Payload bytes of the run by hop and direction.", ("hop", "direction")),
    "regions_answered": ("Regions that took part in the last round.", ()),
    "region_skipped_rounds": ("Rounds in which a region had no part.", ("region",)),
    "region_left_out_answers": ("Clients' answers that did not count.", ("region",)),
    "region_clients": ("Clients whose answers counted in the last round.", ("region",)),
    "region_conflict": ("d_r, distance of the regional from the global update.", ("region",)),
    "region_alpha": ("alpha_r, strength of the regional part.", ("region",)),
    "region_loss": ("Mean training loss of the region's clients.", ("region",)),
    "region_epsilon": ("Privacy spent, as the coordinator sees it.", ("region",)),
    "score": ("Score on held-out rows by served level.", ("level", "region")),
    "run_failed": ("1 if the run ended in failure.", ()),
    "last_progress_timestamp_seconds": ("When the tier last made progress, Unix time.", ()),
    "coordinator_up": ("1 if the region's daemon answers.", ()),
    "clients_online": ("Clients that are connected to the region.", ()),
    "coordinator_round": ("Round of the region's last report.", ()),
    "jobs": ("Jobs of the region's desk by state.", ("state",)),
    "worker_age_seconds": ("Seconds since the regional ServerApp was heard of.", ()),
    "progress_age_seconds": ("Seconds since the region's last report.", ()),
    "processes": ("Processes of this container.", ()),
    "memory_bytes": ("Resident memory of this container's processes.", ()),
    "cpu_seconds": ("CPU time of this container's live processes.", ()),
}
"""Help text and labels by name, without the prefix."""


class Gauges:
    """Builds the families of one scrape; each name is one of `METRICS`."""

    def __init__(self) -> None:
        self._families: dict[str, GaugeMetricFamily] = {}

    def put(self, name: str, value: float, *labels: str) -> None:
        """One sample. `labels` are in the order of `METRICS`."""
        if name not in self._families:
            text, label_names = METRICS[name]
            self._families[name] = GaugeMetricFamily(PREFIX + name, text, labels=label_names)
        self._families[name].add_metric(labels, value)

    def families(self) -> Iterator[Metric]:
        """Everything that was put."""
        yield from self._families.values()


class RunCollector(Collector):
    """The global tier: rounds, phases, bytes, conflict, alpha and epsilon from the run's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = RunFolder(folder)

    def collect(self) -> Iterable[Metric]:
        """Everything that the folder says now; nothing before there is a run."""
        gauges = Gauges()
        if self._folder.config_file.is_file():
            self._run(gauges)
        return gauges.families()

    def _run(self, gauges: Gauges) -> None:
        records = self._folder.metrics().read()
        rounds = {r.round: r for r in records if isinstance(r, RoundRecord)}
        gauges.put("rounds_planned", self._folder.config().run.rounds)
        gauges.put("round", max(rounds, default=0))
        if self._folder.metrics_file.exists():
            written = self._folder.metrics_file.stat().st_mtime
            gauges.put("last_progress_timestamp_seconds", written)
        if self._folder.result_file.exists():
            gauges.put("run_failed", float(self._folder.read_result().status == "failed"))
        if rounds:
            _last_round(gauges, rounds[max(rounds)])
            _all_rounds(gauges, list(rounds.values()))
        for privacy in {r.region: r for r in records if isinstance(r, PrivacyRecord)}.values():
            gauges.put("region_epsilon", privacy.epsilon, privacy.region)
        for level in {r.level: r for r in records if isinstance(r, EvaluateRecord)}.values():
            for region, scores in level.scores.regions.items():
                gauges.put("score", scores.overall, level.level, region)


def _last_round(gauges: Gauges, last: RoundRecord) -> None:
    gauges.put("round_seconds", last.seconds)
    gauges.put("regions_answered", len(last.answered))
    for phase, seconds in last.phases.items():
        gauges.put("phase_seconds", seconds, phase)
    for region, figures in last.regions.items():
        for name, value in (
            ("region_clients", figures.clients),
            ("region_conflict", figures.conflict),
            ("region_alpha", figures.alpha),
            ("region_loss", figures.loss),
        ):
            if value is not None:
                gauges.put(name, value, region)


def _all_rounds(gauges: Gauges, rounds: list[RoundRecord]) -> None:
    for hop in ("server_coordinator", "coordinator_client"):
        for direction in ("up", "down"):
            moved = sum(getattr(getattr(each.traffic, hop), direction) for each in rounds)
            gauges.put("bytes_total", moved, hop, direction)
    skipped = Counter(region.region for each in rounds for region in each.skipped)
    left_out = Counter(client.region for each in rounds for client in each.left_out)
    known = {region for each in rounds for region in each.answered} | set(skipped)
    for region in sorted(known):
        gauges.put("region_skipped_rounds", skipped[region], region)
        gauges.put("region_left_out_answers", left_out[region], region)


class RegionCollector(Collector):
    """The regional tier: what the daemon knows. `ask` raises while the daemon is away."""

    def __init__(self, ask: Callable[[], BridgeStatus]) -> None:
        self._ask = ask

    def collect(self) -> Iterable[Metric]:
        """The daemon's status, or that it does not answer."""
        gauges = Gauges()
        try:
            status = self._ask()
        except RegionFedError:
            gauges.put("coordinator_up", 0)
            return gauges.families()
        gauges.put("coordinator_up", 1)
        gauges.put("clients_online", status.nodes_online)
        if status.worker_age_s >= 0:
            gauges.put("worker_age_seconds", status.worker_age_s)
        if status.progress_age_s >= 0:
            gauges.put("progress_age_seconds", status.progress_age_s)
        number = status.progress.get("round")
        if isinstance(number, int):
            gauges.put("coordinator_round", number)
        epsilon = status.progress.get("epsilon")
        if isinstance(epsilon, float):
            gauges.put("region_epsilon", epsilon, status.region)
        states = Counter(status.jobs.values())
        for state in ("queued", "leased", "done"):
            gauges.put("jobs", states[state], state)
        return gauges.families()


class ContainerCollector(Collector):
    """Every tier: the processes that this container runs."""

    def collect(self) -> Iterable[Metric]:
        """Count, memory and CPU time over all processes that can be seen."""
        gauges = Gauges()
        count, memory, cpu = 0, 0, 0.0
        for process in psutil.process_iter(["memory_info", "cpu_times"]):
            info = process.info
            if info["memory_info"] is None or info["cpu_times"] is None:
                continue
            count += 1
            memory += info["memory_info"].rss
            cpu += info["cpu_times"].user + info["cpu_times"].system
        gauges.put("processes", count)
        gauges.put("memory_bytes", memory)
        gauges.put("cpu_seconds", cpu)
        return gauges.families()


class ProgressCollector(Collector):
    """A client: when it last wrote its state; what is in it stays there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        """The newest time among the files of the client's state."""
        gauges = Gauges()
        times = [path.stat().st_mtime for path in self._folder.rglob("*") if path.is_file()]
        if times:
            gauges.put("last_progress_timestamp_seconds", max(times))
        return gauges.families()
