"""Real sources on small folders of the same layout, and on the real folder where there is one."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regionfed.data.config import ROOT_VARIABLE, DataConfig
from regionfed.data.open import open_data
from regionfed.data.types import FederationData, Row
from regionfed.errors import DataError
from regionfed.tasks.registry import QUERY_INTENTS

REAL = os.environ.get(ROOT_VARIABLE)
needs_real_data = pytest.mark.skipif(
    not REAL, reason=f"{ROOT_VARIABLE} names no folder of real data"
)

CATEGORIES = [f"cat{index:02d}" for index in range(6)]
NOUNS = ["tire", "lamp", "shelf", "phone", "jacket", "puzzle"]


def write_csv(path: Path, rows: list[dict[str, object]], delimiter: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def write_jsonl(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def query(index: int) -> str:
    return f"Brand{chr(97 + index % 26)}{chr(97 + index // 26)} wooden {NOUNS[index % 6]}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder of the documented layout with 360 queries in 6 categories."""
    bounds = {"train": (0, 240), "validation": (240, 300), "test": (300, 360)}
    listed = []
    for split, (start, stop) in bounds.items():
        numbers = range(start, stop)
        write_jsonl(
            tmp_path / "intent" / f"esci_intent8_{split}.jsonl",
            [
                {"example_id": i, "query": query(i), "intent8": QUERY_INTENTS[i % 4]}
                for i in numbers
            ],
        )
        write_jsonl(
            tmp_path / "ner" / f"queryner_{split}.jsonl",
            [
                {
                    "query": query(i),
                    "tokens": query(i).split(),
                    "labels5": ["B-BRAND", "O", "B-PRODUCT"],
                    "labels5_alt": ["B-BRAND", "B-MATERIAL", "B-PRODUCT"],
                }
                for i in numbers
            ],
        )
        listed += [
            {
                "query": query(i),
                "source": f"queryner_{split}",
                "category24_weak": CATEGORIES[i % 6],
                "intent8_derived": QUERY_INTENTS[i % 4],
            }
            for i in numbers
        ]
    write_csv(tmp_path / "queries" / "esci_us_queries.csv", listed)
    write_csv(tmp_path / "queries" / "wands_query.csv", [{"query": "ombre rug"}], delimiter="\t")
    write_csv(
        tmp_path / "spelling" / "homedepot_query_typos.csv",
        [
            {"noisy_query": f"stele {word}{i}", "corrected_query": f"steel {word}{i}", "clean": 1}
            for word in NOUNS
            for i in range(20)
        ]
        + [{"noisy_query": "junk", "corrected_query": "other", "clean": 0}],
    )
    (tmp_path / "spelling" / "codespell_dictionary.txt").write_text(
        "wodden->wooden\ntyre->tire, tyrant,\nshlef->shelf\njaket->jacket\n"
    )
    (tmp_path / "spelling" / "en_natural_misspellings.txt").write_text("puzzle puzle pussle\n")
    (tmp_path / "spelling" / "augly_misspelling.json").write_text('{"phone": ["fone", "phon"]}')
    return tmp_path


def section(root: Path, **keys) -> DataConfig:
    keys = {"source": "queries", "regions": 3, "clients_per_region": 2, **keys}
    return DataConfig(root=root, partition={"min_rows": 8, "alpha": 1.0}, **keys)


SPELL = {"spell_train_rows": 150}


def rows_of(data: FederationData, split: str) -> list[Row]:
    return [
        row
        for region in data.regions
        for client in data.clients(region)
        for row in getattr(data.load(region, client), split)
    ]


def test_every_query_is_placed_once_with_all_its_tasks(folder):
    data = open_data(section(folder, queries=SPELL), 4)
    train = rows_of(data, "train")
    assert Counter(row.task for row in train) == {"intent": 240, "ner": 240, "spell": 150}
    assert len({row.text for row in train if row.task == "intent"}) == 240
    where: dict[str, set[tuple[str, str]]] = {}
    for region in data.regions:
        for client in data.clients(region):
            for row in data.load(region, client).train:
                if row.task != "spell":
                    where.setdefault(row.text, set()).add((region, client))
    assert all(len(places) == 1 for places in where.values())


def test_held_out_rows_are_the_annotated_ones_and_real_pairs(folder):
    data = open_data(section(folder, queries=SPELL), 4)
    test, train = rows_of(data, "test"), rows_of(data, "train")
    assert {r.text for r in test if r.task == "ner"} == {query(i).lower() for i in range(300, 360)}
    spell = [row for row in test if row.task == "spell"]
    assert spell
    assert all(row.text.startswith("stele ") and row.target.startswith("steel ") for row in spell)
    held = {row.target if row.task == "spell" else row.text for row in test}
    assert not held & {row.target if row.task == "spell" else row.text for row in train}


def test_tags_are_types_per_token_and_intents_come_without_spans(folder):
    data = open_data(section(folder, queries={**SPELL, "entities": "labels5_alt"}), 0)
    assert data.tasks[2].labels == ("product", "brand", "color", "material", "size", "o")
    ner = next(row for row in rows_of(data, "train") if row.task == "ner")
    assert ner.target == "brand material product"
    plain = open_data(section(folder, tasks=["ner", "intent"]), 0)
    assert [task.name for task in plain.tasks] == ["ner", "intent"]
    assert next(r for r in rows_of(plain, "train") if r.task == "ner").target == "brand o product"


def test_spelling_keeps_clean_queries_and_corrupts_by_learnt_errors(folder):
    data = open_data(section(folder, tasks=["spell"], queries={**SPELL, "clean_share": 0.2}), 1)
    pairs = [(row.text, row.target) for row in rows_of(data, "train")]
    assert sum(typed == right for typed, right in pairs) == 30
    corrupted = [
        (typed, right) for typed, right in pairs if typed != right and "steel" not in right
    ]
    assert len(corrupted) > 20
    for typed, right in corrupted:
        wrong = [(a, b) for a, b in zip(typed.split(), right.split(), strict=True) if a != b]
        assert len(wrong) == 1


def test_rows_per_task_can_be_limited(folder):
    data = open_data(section(folder, queries={**SPELL, "max_rows_per_task": 100}), 0)
    assert set(Counter(row.task for row in rows_of(data, "train")).values()) == {100}
    assert Counter(row.task for row in rows_of(data, "test"))["ner"] == 60


def test_a_missing_file_or_column_or_folder_is_named(folder, monkeypatch):
    (folder / "ner" / "queryner_test.jsonl").rename(folder / "gone")
    with pytest.raises(DataError, match=r"queryner_test\.jsonl does not exist"):
        open_data(section(folder), 10)
    (folder / "gone").rename(folder / "ner" / "queryner_test.jsonl")
    with pytest.raises(DataError, match=r"/nowhere does not exist"):
        open_data(section(Path("/nowhere")), 0)
    monkeypatch.delenv(ROOT_VARIABLE, raising=False)
    with pytest.raises(DataError, match=r"set `root` in .*REGIONFED_DATA"):
        open_data(DataConfig(source="queries"), 0)
    write_csv(folder / "queries" / "esci_us_queries.csv", [{"query": "x", "source": "y"}])
    with pytest.raises(
        DataError, match=r"no column 'category24_weak', 'intent8_derived'; .*'query'"
    ):
        open_data(section(folder), 11)


def test_reviews_are_split_by_text_and_placed_by_department(tmp_path):
    reviews = [
        {
            "department": ("Tops", "Dresses", "Trend")[i % 3],
            "rating": 1 + i % 5,
            "title": "Nice" if i % 2 else "",
            "text": f"It&#39;s word{i} " + "very " * 100,
        }
        for i in range(300)
    ]
    write_csv(tmp_path / "reviews" / "womens_clothing_reviews.csv.gz", reviews)
    config = section(tmp_path, source="reviews", regions=None, reviews={"max_words": 10})
    data = open_data(config, 0)
    assert len(data.regions) == 2  # Trend is left out
    train = rows_of(data, "train")
    everyone = train + rows_of(data, "validation") + rows_of(data, "test")
    assert len(everyone) == len({row.text for row in everyone}) == 200
    assert all(len(row.text.split()) <= 10 for row in everyone)
    assert {row.target for row in everyone} == set("12345")
    assert "it's" in list(data.vocabulary())


def test_amazon_reviews_have_no_three_stars(tmp_path):
    write_jsonl(
        tmp_path / "reviews" / "blitzer_mds4.jsonl.gz",
        [
            {"category": "books", "rating": (1, 2, 4, 5)[i % 4], "title": "", "text": f"good {i}"}
            for i in range(90)
        ],
    )
    config = section(tmp_path, source="reviews", regions=1, reviews={"corpus": "amazon"})
    assert open_data(config, 0).tasks[0].labels == ("1", "2", "4", "5")
    with pytest.raises(DataError, match=r"has 1 categories .* set data.regions to 1"):
        open_data(section(tmp_path, source="reviews", reviews={"corpus": "amazon"}), 0)


@pytest.fixture
def handwriting(tmp_path: Path) -> Path:
    """Nine writers of 62 characters; the first pixel names the writer."""
    writers = np.repeat(np.arange(9), 62)
    images = np.zeros((len(writers), 28, 28), np.uint8)
    images[:, 0, 0] = writers
    (tmp_path / "handwriting").mkdir()
    np.savez(
        tmp_path / "handwriting" / "char74k_hnd62_28x28.npz",
        images=images,
        labels=np.tile(np.arange(62), 9),
        writers=writers,
    )
    return tmp_path


def writer_of(row: Row) -> int:
    assert row.image is not None
    return int(row.image[0, 0])


def test_one_writer_per_client_with_own_characters_held_out(handwriting):
    data = open_data(section(handwriting, source="handwriting", clients_per_region=3), 0)
    seen = set()
    for region in data.regions:
        for client in data.clients(region):
            share = data.load(region, client)
            rows = [*share.train, *share.validation, *share.test]
            assert len({row.target for row in rows}) == 62
            assert (len(share.train), len(share.validation), len(share.test)) == (44, 6, 12)
            (writer,) = {writer_of(row) for row in rows}
            seen.add(writer)
    assert seen == set(range(9))


def test_unseen_writers_are_only_tested_on(handwriting):
    config = section(handwriting, source="handwriting", handwriting={"unseen_writers": 3})
    data = open_data(config, 0)
    trained = {writer_of(row) for row in rows_of(data, "train") + rows_of(data, "validation")}
    tested = Counter(writer_of(row) for row in rows_of(data, "test"))
    assert not trained & set(tested)
    assert len(trained) == 6
    assert set(tested.values()) == {62}


def test_too_few_writers_is_an_error(handwriting):
    config = section(handwriting, source="handwriting", clients_per_region=4)
    with pytest.raises(DataError, match="has 9 writers, but 3 regions of 4 clients"):
        open_data(config, 0)


@needs_real_data
def test_the_real_queries_make_8_regions_of_10_clients():
    data = open_data(DataConfig(source="queries", root=REAL), 0)
    shares = [
        data.load(region, client) for region in data.regions for client in data.clients(region)
    ]
    assert len(shares) == 80
    assert min(len(share.train) for share in shares) >= 20
    test = Counter(row.task for row in rows_of(data, "test"))
    assert test["intent"] == test["ner"] == 993
    assert test["spell"] > 800


@needs_real_data
@pytest.mark.parametrize("source", ["reviews", "handwriting"])
def test_the_other_real_sources_open(source):
    data = open_data(DataConfig(source=source, root=REAL), 0)
    assert len(data.regions) == 5
    assert all(data.load(region, data.clients(region)[0]).train for region in data.regions)
