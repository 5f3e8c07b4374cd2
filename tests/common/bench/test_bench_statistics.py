"""Intervals over seeds, and the sentences that are computed from them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from regionfed.bench.cell import CellCost, CellResult
from regionfed.bench.claims import answers, points
from regionfed.bench.page import reference_rows
from regionfed.bench.recipe import Recipe
from regionfed.bench.statistics import interval, paired
from regionfed.bench.tables import Results
from regionfed.run.scores import LevelScores, RegionScores, TaskScore


def cell(system: str, seed: int, scores: dict[str, float], **fields: Any) -> CellResult:
    regions = {
        name: RegionScores.from_tasks({"intent": TaskScore(score=value)})
        for name, value in scores.items()
    }
    return CellResult(
        key=f"{system}-{seed}",
        system=system,
        setting="main",
        seed=seed,
        level="region",
        parameters=10,
        rounds=1,
        seconds=1.0,
        memory_mb=1.0,
        cost=CellCost(down=1, up=1, exchanges=1, bytes=80),
        scores=LevelScores.from_regions(regions),
        **fields,
    )


def test_interval_is_students() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert (found.mean, found.sd, found.count) == (2.0, 1.0, 3)
    # t(0.975, 2) = 4.302653
    assert found.high - found.mean == pytest.approx(4.302653 / math.sqrt(3), abs=1e-5)


def test_one_value_has_no_interval() -> None:
    found = interval([0.5])
    assert math.isinf(found.low)
    assert "one seed" in points(found)
    assert not found.certain


def test_paired_takes_the_seeds_that_both_have() -> None:
    found = paired({1: 0.5, 2: 0.6, 9: 0.0}, {1: 0.4, 2: 0.5, 8: 1.0})
    assert found is not None
    assert found.mean == pytest.approx(0.1)
    assert found.count == 2
    assert paired({1: 0.5}, {2: 0.5}) is None


def test_references_stand_in_the_column_of_their_task() -> None:
    recipe = Recipe.model_validate(
        {
            "bench": {"name": "x", "systems": ["fedavg"]},
            "size": {"smoke": {}},
            "references": {"ner: linear": 72.6, "spell: copy": 0, "majority": 19},
        }
    )
    columns = ["system", "serves", "ours: overall", "ours: ner"]
    assert reference_rows(recipe, columns, missing={"spell"}) == [
        ("reference, ner: linear", "", "", "72.6"),
        ("reference, majority", "", "19.0", ""),
    ]


def verdicts(cells: list[CellResult]) -> dict[str, str]:
    return {
        a.question: a.verdict for a in answers(Results(cells), setting="main", rivals=["fedavg"])
    }


def several(system: str, low: float, high: float) -> list[CellResult]:
    return [
        cell(system, seed, {"a": low + 0.001 * seed, "b": high + 0.001 * seed})
        for seed in (1, 2, 3)
    ]


def test_claims_follow_the_figures() -> None:
    cells = [
        *several("fedavg", 0.60, 0.70),
        *several("scaffold", 0.58, 0.69),
        *several("apfl", 0.05, 0.06),
        *several("centralized-regional", 0.90, 0.92),
        *several("regionfed-residual", 0.895, 0.915),
        *several("regionfed-grad", 0.70, 0.75),
    ]
    found = verdicts(cells)
    assert found["Do parameter-level methods collapse?"] == "yes for APFL"
    assert found["Does RegionFed close the gap to Centralized + regional weighting?"] == "yes"
    assert found["Does the best strategy beat its rivals in the mean?"] == "yes, all"
    assert found["Does the best strategy beat its rivals in the worst region?"] == "yes, all"
    assert found["Which strategy wins where?"] == "RegionFed Residual"


def test_claims_say_no_where_the_figures_do() -> None:
    cells = [
        *several("fedavg", 0.80, 0.85),
        *several("centralized-regional", 0.95, 0.96),
        *several("regionfed-residual", 0.60, 0.70),
    ]
    found = verdicts(cells)
    assert found["Does RegionFed close the gap to Centralized + regional weighting?"] == "no"
    assert found["Does the best strategy beat its rivals in the mean?"] == "0 of 1"


def test_claims_leave_open_what_one_seed_cannot_decide() -> None:
    cells = [
        cell("centralized-regional", 1, {"a": 0.9}),
        cell("regionfed-residual", 1, {"a": 0.9}),
        cell("fedavg", 1, {"a": 0.5}),
    ]
    found = verdicts(cells)
    gap = "Does RegionFed close the gap to Centralized + regional weighting?"
    assert found[gap] == "not decided by these seeds"
    assert found["Does the best strategy beat its rivals in the mean?"] == "0 of 1"


def test_the_search_for_rho_is_counted() -> None:
    def searched(verdict: str, rho: float) -> dict[str, Any]:
        return {"verdicts": {"a": {"strategy": "grad", "verdict": verdict, "rho": rho}}}

    cells = [
        cell("regionfed-grad", 1, {"a": 0.5}, **searched("interior", 0.4)),
        cell("regionfed-grad", 2, {"a": 0.5}, **searched("interior", 0.5)),
        cell("regionfed-grad", 3, {"a": 0.5}, **searched("lower", 0.0344)),
    ]
    found = answers(Results(cells), setting="main", rivals=[])
    assert [a.verdict for a in found] == ["it mostly finds a value of its own"]
    assert "interior 2, lower 1" in found[0].text
    assert "1 of them within" in found[0].text
