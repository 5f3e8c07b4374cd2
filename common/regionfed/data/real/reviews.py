"""Product reviews with stars: one region per department or domain unless configured otherwise."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from regionfed.data.config import DataConfig
from regionfed.data.partition import Split, split_by_hash, stream
from regionfed.data.placement import SPLITS, PlacedData, Unit, place_units, public_words
from regionfed.data.real.read import iterate_jsonl, read_csv
from regionfed.data.types import Row
from regionfed.tasks.registry import STARS, select_tasks, sentiment_task
from regionfed.tasks.spec import TaskSpec

Review = tuple[str, str, str]
"""(category, stars, text)."""

_WORD = re.compile(r"[a-z0-9']+")
_LEFT_OUT = "Trend"
"""A department of 118 reviews that the data's notes advise to drop."""


def open_reviews(config: DataConfig, *, seed: int) -> PlacedData:
    """The federation of reviews with the task 'sentiment'."""
    root = config.data_root() / "reviews"
    amazon = config.reviews.corpus == "amazon"
    reviews = list(_amazon(root) if amazon else _clothing(root))
    stars = tuple(star for star in STARS if not (amazon and star == "3"))
    tasks = select_tasks((sentiment_task(stars),), chosen=config.tasks, custom={}, source="reviews")
    return place_reviews(
        reviews,
        config=config,
        tasks=tasks,
        max_words=config.reviews.max_words,
        max_rows=config.reviews.max_rows,
        seed=seed,
    )


def place_reviews(
    reviews: list[Review],
    *,
    config: DataConfig,
    tasks: tuple[TaskSpec, ...],
    max_words: int,
    max_rows: int | None,
    seed: int,
) -> PlacedData:
    """Reviews cut to `max_words`, split by their text, placed by category and stars.

    The vocabulary comes from the training reviews, which are public.
    """
    if max_rows is not None and max_rows < len(reviews):
        chosen = stream(seed, "limit").permutation(len(reviews))[:max_rows]
        reviews = [reviews[index] for index in sorted(chosen.tolist())]
    units: dict[Split, list[Unit]] = {split: [] for split in SPLITS}
    for category, stars, text in reviews:
        words = _WORD.findall(html.unescape(text).lower())[:max_words]
        if not words:
            continue
        row = Row(tasks[0].name, " ".join(words), stars)
        split = split_by_hash(row.text, validation_share=0.1, test_share=0.2)
        units[split].append(Unit(category, stars, (row,)))
    regions = config.region_names(default=len({category for category, _, _ in reviews}))
    shares = place_units(
        units,
        config=config,
        regions=regions,
        clients=config.client_names(default=10),
        seed=seed,
    )
    texts = (row.text for unit in units["train"] for row in unit.rows)
    return PlacedData(tasks, regions, shares, public_words(tasks, texts))


def _clothing(root: Path) -> Iterator[Review]:
    path = root / "womens_clothing_reviews.csv.gz"
    for row in read_csv(path, columns=("department", "rating", "title", "text")):
        if row["department"] and row["department"] != _LEFT_OUT:
            yield row["department"], row["rating"], f"{row['title']} {row['text']}"


def _amazon(root: Path) -> Iterator[Review]:
    path = root / "blitzer_mds4.jsonl.gz"
    for row in iterate_jsonl(path, columns=("category", "rating", "title", "text")):
        text = f"{row['title'] or ''} {row['text'] or ''}"
        yield str(row["category"]), str(int(float(row["rating"]))), text
