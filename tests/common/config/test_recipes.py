"""Every recipe is a configuration that loads."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from regionfed.config.demo import DEMO_FILE
from regionfed.config.load import load_config

# A benchmark recipe has a [bench] table beside the federation's sections; `bench` reads it.
RECIPES = [
    path
    for path in sorted((Path(__file__).parents[3] / "recipes").glob("*.toml"))
    if "bench" not in tomllib.loads(path.read_text())
]


def test_the_recipes_of_the_readme_are_there() -> None:
    assert {path.stem for path in RECIPES} >= {
        "demo",
        "esci_queries",
        "esci_minilm",
        "esci_minilm_tuned",
        "roberta",
        "cnn_handwriting",
        "t5_small",
    }


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_loads(path: Path) -> None:
    config = load_config(path, environ={})
    assert config.run.name != "run", "a recipe names its runs"


def test_the_demonstration_is_the_same_in_the_package_and_among_the_recipes() -> None:
    shown = Path(__file__).parents[3] / "recipes" / "demo.toml"
    assert shown.read_text() == DEMO_FILE.read_text()
