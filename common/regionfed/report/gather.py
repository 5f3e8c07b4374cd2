"""Everything that a report tells, read from a run's folder."""

from __future__ import annotations

from dataclasses import dataclass, field

from regionfed.config.federation import FederationConfig
from regionfed.run.folder import RunFolder
from regionfed.run.records import ConflictMatrix, PersonaliseRecord
from regionfed.run.result import Result
from regionfed.run.scores import LEVELS, Level, LevelScores
from regionfed.run.summary import History

Series = dict[str, list[tuple[int, float]]]
"""Values by name, each with its round, ascending."""


@dataclass
class ReportData:
    """A run as its report needs it; `result` is None while it has not ended."""

    config: FederationConfig
    configuration_text: str
    result: Result | None
    history: History
    scores: dict[Level, LevelScores] = field(init=False)

    def __post_init__(self) -> None:
        self.scores = self.history.last_scores()

    @property
    def levels(self) -> list[Level]:
        """The levels that were evaluated, from the most general to the most personal."""
        return [level for level in LEVELS if level in self.scores]

    @property
    def headline(self) -> Level | None:
        """The level that regions are served."""
        if self.result is not None and self.result.headline in self.scores:
            return self.result.headline
        served = [level for level in self.levels if level != "local"]
        return served[-1] if served else None

    @property
    def regions(self) -> list[str]:
        """Names of the regions, in the order of the topology."""
        named: dict[str, None] = dict.fromkeys(self.result.topology.regions if self.result else ())
        for record in self.history.rounds:
            named.update(dict.fromkeys(record.answered))
        for level in self.levels:
            named.update(dict.fromkeys(self.scores[level].regions))
        named.update(dict.fromkeys(record.region for record in self.history.personalised))
        return list(named)

    def overall_by_level(self) -> Series:
        """Overall score by level and round."""
        found: Series = {level: [] for level in self.levels}
        for record in self.history.evaluations:
            found[record.level].append((record.round, record.scores.overall))
        return _by_round(found)

    def overall_by_region(self, level: Level) -> Series:
        """Overall score by region and round, at one level."""
        found: Series = {name: [] for name in self.regions}
        for record in self.history.evaluations:
            if record.level == level:
                for name, scores in record.scores.regions.items():
                    found[name].append((record.round, scores.overall))
        return _by_round(found)

    def conflict(self) -> Series:
        """d_r by region and round."""
        return self._figures("conflict")

    def alpha(self) -> Series:
        """alpha_r by region and round."""
        return self._figures("alpha")

    def rho(self) -> Series:
        """The rho that was served by region and round; 0 where nothing was."""
        found: Series = {}
        for record in self.history.personalised:
            if record.rho is not None:
                value = record.rho if record.served else 0.0
                found.setdefault(record.region, []).append((record.round, value))
        return _by_round(found)

    def last_parts(self) -> dict[str, PersonaliseRecord]:
        """The last personalisation of each region, in the order of the regions."""
        last = {record.region: record for record in self.history.personalised}
        return {name: last[name] for name in self.regions if name in last}

    def last_matrix(self) -> tuple[int, ConflictMatrix] | None:
        """The newest conflict matrix of at least two regions, with its round."""
        for record in reversed(self.history.rounds):
            matrix = record.conflict_matrix
            if matrix is not None and len(matrix.regions) > 1:
                return record.round, matrix
        return None

    def _figures(self, name: str) -> Series:
        found: Series = {}
        for record in self.history.rounds:
            for region, figures in record.regions.items():
                value = getattr(figures, name)
                if value is not None:
                    found.setdefault(region, []).append((record.round, value))
        return found


def gather(folder: RunFolder) -> ReportData:
    """Read a run's folder. Raises StateError when a file in it is damaged."""
    return ReportData(
        config=folder.config(),
        configuration_text=folder.config_file.read_text(encoding="utf-8"),
        result=folder.read_result() if folder.result_file.exists() else None,
        history=History(folder.metrics().read()),
    )


def _by_round(series: Series) -> Series:
    """Ascending rounds, without names that have no value."""
    return {name: sorted(points) for name, points in series.items() if points}
