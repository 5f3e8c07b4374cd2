"""Real shop queries: intent, spelling and entities (benchmark section 3).

Intents are derived by a rule from human spans, categories are weak and only place queries in
regions; the spans never reach the intent task. Queries that come without a category or an intent
(the spelling pairs) are placed by a word classifier trained on the other queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regionfed.data.config import DataConfig
from regionfed.data.partition import Split, stream
from regionfed.data.placement import SPLITS, PlacedData, Unit, place_units, public_words
from regionfed.data.real.classify import WordClassifier
from regionfed.data.real.read import read_csv, read_jsonl
from regionfed.data.real.spelling import normal, spelling_pairs
from regionfed.data.types import Row
from regionfed.errors import DataError
from regionfed.tasks.registry import (
    ALTERNATIVE_ENTITY_TYPES,
    ENTITY_TYPES,
    OUTSIDE,
    QUERY_INTENTS,
    intent_task,
    ner_task,
    select_tasks,
    spell_task,
)

_QUERY_FILE = Path("queries/esci_us_queries.csv")
_QUERY_COLUMNS = ("query", "source", "category24_weak", "intent8_derived")


def open_queries(config: DataConfig, *, seed: int) -> PlacedData:
    """The federation of real queries: 8 regions of 10 clients unless configured otherwise."""
    root = config.data_root()
    alternative = config.queries.entities == "labels5_alt"
    types = ALTERNATIVE_ENTITY_TYPES if alternative else ENTITY_TYPES
    tasks = select_tasks(
        (intent_task(QUERY_INTENTS), spell_task(), ner_task(types)),
        chosen=config.tasks,
        custom={},
        source="queries",
    )
    names = {task.name for task in tasks}
    listed = read_csv(root / _QUERY_FILE, columns=_QUERY_COLUMNS)
    held_out = _held_out_queries(root)
    known = [row for row in listed if normal(row["query"]) not in held_out]
    places = _Places(listed, known)
    rows: dict[Split, list[Row]] = {split: [] for split in SPLITS}
    for split in SPLITS:
        if "intent" in names:
            rows[split] += _limited(_intent_rows(root, split), config, split=split, seed=seed)
        if "ner" in names:
            column = config.queries.entities
            ner = _ner_rows(root, split, column=column)
            rows[split] += _limited(ner, config, split=split, seed=seed)
    rows["train"] = [row for row in rows["train"] if normal(row.text) not in held_out]
    if "spell" in names:
        pairs = spelling_pairs(
            root / "spelling",
            config.queries,
            clean_queries=[normal(row["query"]) for row in known],
            forbidden=held_out,
            seed=seed,
        )
        for split in SPLITS:
            spell = (Row("spell", typed, right) for typed, right in pairs[split])
            rows[split] += _limited(spell, config, split=split, seed=seed)
    regions = config.region_names(default=8)
    shares = place_units(
        {split: places.units(rows[split]) for split in SPLITS},
        config=config,
        regions=regions,
        clients=config.client_names(default=10),
        seed=seed,
    )
    return PlacedData(tasks, regions, shares, public_words(tasks, _public_texts(root, known)))


class _Places:
    """Category and intent of every query: as listed, else as the words suggest."""

    def __init__(self, listed: list[dict[str, str]], known: list[dict[str, str]]) -> None:
        self._category = {normal(row["query"]): row["category24_weak"] for row in listed}
        with_intent = [row for row in known if row["intent8_derived"]]
        self._guess_category = WordClassifier(
            [normal(row["query"]) for row in known], [row["category24_weak"] for row in known]
        )
        self._guess_intent = WordClassifier(
            [normal(row["query"]) for row in with_intent],
            [row["intent8_derived"] for row in with_intent],
        )
        self._intent = {normal(row["query"]): row["intent8_derived"] for row in with_intent}

    def units(self, rows: list[Row]) -> list[Unit]:
        """One unit per query, with its rows of all tasks; spelling goes by the right query."""
        groups: dict[str, list[Row]] = {}
        for row in rows:
            query = normal(row.target if row.task == "spell" else row.text)
            groups.setdefault(query, []).append(row)
        return [
            Unit(
                category=self._category.get(query) or self._guess_category.label(query),
                label=self._intent.get(query) or self._guess_intent.label(query),
                rows=tuple(group),
            )
            for query, group in groups.items()
        ]


def _intent_rows(root: Path, split: Split) -> Iterator[Row]:
    path = root / "intent" / f"esci_intent8_{split}.jsonl"
    for row in read_jsonl(path, columns=("query", "intent8")):
        yield Row("intent", normal(row["query"]), str(row["intent8"]))


def _ner_rows(root: Path, split: Split, *, column: str) -> Iterator[Row]:
    path = root / "ner" / f"queryner_{split}.jsonl"
    for row in read_jsonl(path, columns=("tokens", column)):
        tags = [str(tag).partition("-")[2].lower() or OUTSIDE for tag in row[column]]
        if len(tags) != len(row["tokens"]):
            raise DataError(
                f"{path}: {len(tags)} tags for {len(row['tokens'])} tokens in {row['tokens']}"
            )
        yield Row("ner", " ".join(row["tokens"]).lower(), " ".join(tags))


def _held_out_queries(root: Path) -> frozenset[str]:
    """Validation and test queries of the human annotations, in normal form."""
    return frozenset(
        normal(str(row["query"]))
        for split in SPLITS[1:]
        for row in read_jsonl(root / "ner" / f"queryner_{split}.jsonl", columns=("query",))
    )


def _limited(rows: Iterator[Row], config: DataConfig, *, split: Split, seed: int) -> list[Row]:
    """All rows, or a random choice when the training rows of a task are limited."""
    held = list(rows)
    most = config.queries.max_rows_per_task
    if split != "train" or most is None or most >= len(held):
        return held
    chosen = stream(seed, "limit", held[0].task).permutation(len(held))[:most]
    return [held[index] for index in sorted(chosen.tolist())]


def _public_texts(root: Path, known: list[dict[str, str]]) -> Iterator[str]:
    yield from (normal(row["query"]) for row in known)
    wands = read_csv(root / "queries" / "wands_query.csv", columns=("query",), delimiter="\t")
    yield from (normal(row["query"]) for row in wands)
