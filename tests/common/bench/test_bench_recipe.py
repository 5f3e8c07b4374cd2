"""Recipes: layers, sweeps, keys of cells, and errors that say what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from regionfed.bench.recipe import Recipe, jobs_of, read_recipe, settings_of
from regionfed.bench.systems import SYSTEMS
from regionfed.errors import ConfigError

RECIPES = Path(__file__).resolve().parents[3] / "recipes"

SMALL = """
[bench]
name = "small"
systems = ["fedavg", "fedprox"]
seeds = [1, 2]
[federation.run]
rounds = 3
[federation.training]
steps = 2
[options.fedprox]
mu = 0.5
[size.smoke]
[size.smoke.federation.run]
rounds = 1
[size.full]
seeds = [1, 2, 3]
"""


def recipe_at(tmp_path: Path, text: str, name: str = "recipe.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_sizes_lie_over_the_recipe(tmp_path: Path) -> None:
    recipe = read_recipe(recipe_at(tmp_path, SMALL))
    smoke = jobs_of(recipe, "smoke", origin="it")
    assert [(job.system, job.seed) for job in smoke] == [
        ("fedavg", 1),
        ("fedprox", 1),
        ("fedavg", 2),
        ("fedprox", 2),
    ]
    assert {job.config.run.rounds for job in smoke} == {1}
    assert {job.config.training.steps for job in smoke} == {2}
    assert [job.config.run.seed for job in smoke] == [job.seed for job in smoke]
    assert smoke[1].options == {"mu": 0.5}
    assert smoke[0].config.privacy.mode == "off"
    assert len(jobs_of(recipe, "full", origin="it")) == 6


def test_a_cells_key_follows_what_decides_its_result(tmp_path: Path) -> None:
    def keys(text: str) -> list[str]:
        return [j.key for j in jobs_of(read_recipe(recipe_at(tmp_path, text)), "smoke", origin="")]

    first = keys(SMALL)
    assert len(set(first)) == len(first)
    assert keys(SMALL) == first
    changed = keys(SMALL.replace("mu = 0.5", "mu = 0.6"))
    assert [a == b for a, b in zip(first, changed, strict=True)] == [True, False, True, False]
    assert keys(SMALL.replace("steps = 2", "steps = 2\nthreads = 2")) == first


def test_a_sweep_makes_a_setting_of_every_value(tmp_path: Path) -> None:
    text = SMALL + '[sweep]\nkey = "options.fedprox.mu"\nvalues = [0.0, 0.1]\n'
    recipe = read_recipe(recipe_at(tmp_path, text))
    assert [setting.name for setting in settings_of(recipe, "smoke")] == ["mu=0.0", "mu=0.1"]
    jobs = [job for job in jobs_of(recipe, "smoke", origin="") if job.system == "fedprox"]
    assert [job.options["mu"] for job in jobs] == [0.0, 0.0, 0.1, 0.1]


def test_a_recipe_may_extend_another(tmp_path: Path) -> None:
    recipe_at(tmp_path, SMALL, "base.toml")
    text = 'extends = "base.toml"\n[bench]\nname = "other"\n[federation.run]\nrounds = 9\n'
    recipe = read_recipe(recipe_at(tmp_path, text, "child.toml"))
    assert (recipe.bench.name, recipe.bench.seeds) == ("other", [1, 2])
    assert jobs_of(recipe, "full", origin="")[0].config.run.rounds == 9


def test_recipes_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    recipe_at(tmp_path, 'extends = "two.toml"\n', "one.toml")
    path = recipe_at(tmp_path, 'extends = "one.toml"\n', "two.toml")
    with pytest.raises(ConfigError, match="leads back"):
        read_recipe(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"fedprox"]', '"fedprix"]', "fedprix"),
        ("mu = 0.5", "mo = 0.5", "mo"),
        ("mu = 0.5", "mu = -1", "greater than or equal to 0"),
        ("rounds = 3", "runds = 3", "runds"),
        ("steps = 2", "stops = 2", "stops"),
        ("[bench]", "[bench", "not valid TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = recipe_at(tmp_path, SMALL.replace(old, new))
    with pytest.raises(ConfigError, match=words):
        jobs_of(read_recipe(path), "smoke", origin=str(path))


def test_a_recipe_that_is_not_there_says_where_some_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="recipes/"):
        read_recipe(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "path",
    [
        *(RECIPES / f"{n}.toml" for n in ("paper_esci", "real_queries", "reviews", "handwriting")),
        *sorted((RECIPES / "bench").glob("*.toml")),
    ],
    ids=lambda path: path.stem,
)
def test_the_recipes_of_the_project_are_usable(path: Path) -> None:
    recipe = read_recipe(path)
    assert isinstance(recipe, Recipe)
    for size in ("smoke", "full"):
        assert jobs_of(recipe, size, origin=str(path))


def test_paper_esci_compares_every_system() -> None:
    recipe = read_recipe(RECIPES / "paper_esci.toml")
    assert set(recipe.bench.systems) == set(SYSTEMS)
