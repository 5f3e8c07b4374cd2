"""Hub loaders on local folders of the hub's layout; no network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from regionfed.data.config import DataConfig
from regionfed.data.open import open_data
from regionfed.data.types import Row
from regionfed.errors import DataError

datasets = pytest.importorskip("datasets")
image = pytest.importorskip("PIL.Image")


def section(name: Path, *, dataset: str, hub: dict | None = None, **keys) -> DataConfig:
    return DataConfig(
        source="hub",
        hub={"dataset": dataset, "name": str(name), **(hub or {})},
        partition={"min_rows": 5, "alpha": 1.0, "home_probability": 1.0},
        **keys,
    )


def all_rows(data, region: str) -> list[Row]:
    shares = [data.load(region, client) for client in data.clients(region)]
    return [row for share in shares for row in [*share.train, *share.validation, *share.test]]


def test_esci_gives_relevance_rows_by_locale(tmp_path):
    labels = ("Exact", "Substitute", "Complement", "Irrelevant")
    datasets.Dataset.from_list(
        [
            {
                "query": f"Red  Tire {i}",
                "product_title": f"Tire No {i}",
                "product_locale": ("us", "es")[i % 2],
                "esci_label": labels[i // 2 % 4],
            }
            for i in range(160)
        ]
    ).save_to_disk(str(tmp_path / "esci"))
    config = section(
        tmp_path / "esci", dataset="esci", hub={"locales": ["us", "es"]}, clients_per_region=3
    )
    data = open_data(config, 0)
    assert len(data.regions) == 2
    rows = [row for region in data.regions for row in all_rows(data, region)]
    assert len(rows) == 160
    assert Row("relevance", "red tire 0 : tire no 0", "exact") in rows
    parity = {int(row.text.split()[2]) % 2 for row in all_rows(data, data.regions[0])}
    assert len(parity) == 1  # one locale


def test_amazon_reviews_are_read_per_category(tmp_path):
    folder = tmp_path / "raw" / "review_categories"
    folder.mkdir(parents=True)
    for category in ("Books", "Toys"):
        (folder / f"{category}.jsonl").write_text(
            "".join(
                json.dumps({"rating": 1.0 + i % 5, "title": category, "text": f"fine {i}"}) + "\n"
                for i in range(100)
            )
        )
    config = section(
        tmp_path,
        dataset="amazon_reviews",
        hub={"categories": ["Books", "Toys"], "max_rows": 80},
        clients_per_region=2,
    )
    data = open_data(config, 0)
    for region in data.regions:
        rows = all_rows(data, region)
        assert len(rows) == 80
        assert {row.target for row in rows} == set("12345")
        assert len({row.text.split()[0] for row in rows}) == 1


def test_femnist_gives_a_client_per_writer_with_ink_as_high_values(tmp_path):
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "writer_id": datasets.Value("string"),
            "character": datasets.Value("int64"),
        }
    )
    white = np.full((28, 28), 255, np.uint8)
    white[5, 5] = 0
    datasets.Dataset.from_list(
        [
            {"image": image.fromarray(white), "writer_id": f"w{i % 6}", "character": i % 62}
            for i in range(120)
        ],
        features=features,
    ).save_to_disk(str(tmp_path / "femnist"))
    config = section(tmp_path / "femnist", dataset="femnist", regions=2, clients_per_region=3)
    data = open_data(config, 0)
    rows = [row for region in data.regions for row in all_rows(data, region)]
    assert len(rows) == 120
    assert rows[0].image is not None
    assert rows[0].image.shape == (28, 28)
    assert rows[0].image[5, 5] == 255
    assert rows[0].image[0, 0] == 0


def test_what_cannot_be_loaded_is_named(tmp_path):
    with pytest.raises(DataError, match="cannot be loaded"):
        open_data(section(tmp_path / "gone", dataset="esci"), 0)
    datasets.Dataset.from_list([{"query": "x"}]).save_to_disk(str(tmp_path / "thin"))
    with pytest.raises(DataError, match="no column 'product_title', 'product_locale'"):
        open_data(section(tmp_path / "thin", dataset="esci"), 0)
