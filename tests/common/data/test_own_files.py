"""The user's own files: every way to lay them out, and every way to get them wrong."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from pydantic import ValidationError

from regionfed.data.config import DataConfig
from regionfed.data.open import open_data
from regionfed.data.types import FederationData, Row
from regionfed.errors import ConfigError, DataError, RegionFedError

CUSTOM = {"topic": {"kind": "classification", "labels": ["wet", "dry"]}}


def records(count: int = 240) -> list[dict[str, str]]:
    return [
        {
            "question": f"word{index} thing",
            "answer": ("wet", "dry")[index % 2],
            "area": ("north", "south", "east")[index % 3],
            "device": f"d{index % 4}",
            "shelf": f"s{index % 6}",
            "part": ("train", "train", "validation", "test")[index % 4],
        }
        for index in range(count)
    ]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def section(path: Path | str, *, custom: dict | None = None, data: dict | None = None, **files):
    return DataConfig(
        source="files",
        custom=CUSTOM if custom is None else custom,
        files={
            "path": str(path),
            "text_column": "question",
            "target_column": "answer",
            **({} if "task_column" in files else {"task": "topic"}),
            **files,
        },
        **(data or {}),
    )


def all_rows(data: FederationData) -> list[Row]:
    shares = [
        data.load(region, client) for region in data.regions for client in data.clients(region)
    ]
    return [row for share in shares for row in [*share.train, *share.validation, *share.test]]


def texts(rows: list[Row]) -> list[str]:
    return sorted(row.text for row in rows)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_one_file_with_region_and_client_columns(tmp_path, name):
    path = write(tmp_path / name, records())
    data = open_data(section(path, region_column="area", client_column="device"), 0)
    assert data.regions == ("east", "north", "south")
    assert data.clients("north") == ("d0", "d1", "d2", "d3")
    share = data.load("north", "d0")
    mine = [r for r in records() if r["area"] == "north" and r["device"] == "d0"]
    assert texts([*share.train, *share.validation, *share.test]) == sorted(
        r["question"] for r in mine
    )
    assert texts(all_rows(data)) == sorted(r["question"] for r in records())
    assert share.train[0].target in ("wet", "dry")


def test_split_column_is_followed(tmp_path):
    path = write(tmp_path / "a.csv", records())
    config = section(path, region_column="area", client_column="device", split_column="part")
    share = open_data(config, 0).load("south", "d3")
    assert not share.train
    assert not share.validation
    assert len(share.test) == 20


def test_split_without_a_column_is_the_same_for_every_seed(tmp_path):
    path = write(tmp_path / "a.jsonl", records())
    config = section(path, region_column="area", client_column="device", test_share=0.3)
    first, second = open_data(config, 1), open_data(config, 2)
    assert first.load("east", "d1") == second.load("east", "d1")
    held = sum(len(first.load(r, c).test) for r in first.regions for c in first.clients(r))
    assert 0.2 < held / 240 < 0.4


@pytest.mark.parametrize("columns", [{"region_column": "area"}, {"category_column": "shelf"}, {}])
def test_clients_by_dirichlet_hold_every_row_once(tmp_path, columns):
    path = write(tmp_path / "a.jsonl", records())
    data = {"clients_per_region": 2, "partition": {"min_rows": 5, "alpha": 1.0}}
    if "region_column" not in columns:
        data["regions"] = 3
    opened = open_data(section(path, data=data, **columns), 5)
    assert len(opened.regions) == 3
    assert texts(all_rows(opened)) == sorted(r["question"] for r in records())
    assert all(
        len(opened.load(region, client).train) >= 5
        for region in opened.regions
        for client in opened.clients(region)
    )
    if "region_column" in columns:
        north = {r["question"] for r in records() if r["area"] == "north"}
        share = opened.load("north", "c00")
        assert north.issuperset(row.text for row in share.train)


def test_one_file_per_client_is_found_and_only_that_file_is_read(tmp_path):
    for region in ("north", "south"):
        for client in ("a", "b"):
            write(tmp_path / region / f"{client}.csv", records(12))
    data = open_data(section(tmp_path / "{region}" / "{client}.csv"), 0)
    assert data.regions == ("north", "south")
    assert data.clients("south") == ("a", "b")
    (tmp_path / "south" / "b.csv").write_text("nothing,that,fits\n1,2,3\n")
    assert len(all_rows_of(data, "south", "a")) == 12
    with pytest.raises(DataError, match=r"b\.csv: no column 'question', 'answer'"):
        data.load("south", "b")


def all_rows_of(data: FederationData, region: str, client: str) -> list[Row]:
    share = data.load(region, client)
    return [*share.train, *share.validation, *share.test]


def test_a_device_with_its_own_file_alone_needs_no_other(tmp_path):
    write(tmp_path / "r01-c02.jsonl", records(9))
    data = open_data(
        section(tmp_path / "{region}-{client}.jsonl", data={"regions": 4, "clients_per_region": 5}),
        0,
    )
    assert len(data.regions) == 4
    assert len(all_rows_of(data, "r01", "c02")) == 9
    with pytest.raises(DataError, match=r"r01-c03\.jsonl does not exist"):
        data.load("r01", "c03")
    with pytest.raises(DataError, match="'r09' is no region"):
        data.load("r09", "c02")


def test_several_tasks_in_one_file(tmp_path):
    rows = [
        {"t": "ner", "question": f"red tire{i}", "answer": "attribute product"} for i in range(5)
    ]
    rows += [{"t": "spell", "question": f"teh w{i}", "answer": f"the w{i}"} for i in range(5)]
    rows += [{"t": "topic", "question": f"rain {i}", "answer": "wet"} for i in range(5)]
    path = write(tmp_path / "{client}.jsonl".replace("{client}", "x"), rows)
    config = section(
        str(path).replace("x.jsonl", "{client}.jsonl"),
        task_column="t",
        data={"tasks": ["topic", "ner"]},
    )
    data = open_data(config, 0)
    assert [task.name for task in data.tasks] == ["topic", "ner"]
    assert {row.task for row in all_rows_of(data, "r00", "x")} == {"topic", "ner"}


def test_token_lists_are_joined(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        json.dumps({"question": ["red", "tire"], "answer": ["attribute", "product"]}) + "\n"
    )
    config = section(tmp_path / "{client}.jsonl", task="ner", split_column=None)
    assert all_rows_of(open_data(config, 0), "r00", "a") == [
        Row("ner", "red tire", "attribute product")
    ]
    assert path.exists()


def test_vocabulary_has_public_words_and_none_of_the_rows(tmp_path):
    path = write(tmp_path / "a.csv", records())
    (tmp_path / "public.txt").write_text("rain sun\nrain\n")
    plain = open_data(section(path, region_column="area", client_column="device"), 0)
    assert list(plain.vocabulary()) == ["topic:", "wet", "dry"]
    config = section(
        path,
        region_column="area",
        client_column="device",
        vocabulary=str(tmp_path / "public.txt"),
    )
    assert list(open_data(config, 0).vocabulary()) == ["topic:", "wet", "dry", "rain", "sun"]


WRONG = [
    ({"region_column": "county"}, {}, r"a\.csv: no column 'county'; columns present: 'question'"),
    ({"format": "parquet"}, {}, r"a\.csv is no readable Parquet file"),
    ({"region_column": "area", "client_column": "device"}, {"regions": ["north", "west"]},
     r"column 'area' has no row of \['west'\]; regions present: east, north, south"),
    ({"split_column": "shelf"}, {}, r"row 1: 's0' in column 'shelf' is no split; allowed are train"),
    ({"target_column": "shelf"}, {}, r"row 1: 's0' is no label of task 'topic'; allowed are wet, dry"),
    ({"task": "ner"}, {}, r"row 1: 1 tags for 2 tokens"),
    ({"task": "characters"}, {}, "asks for images, which tables do not hold"),
    ({"task_column": "area"}, {"tasks": ["topic"]}, r"row 1: 'north' is no task; allowed are intent"),
    ({"task": "chess"}, {}, r"\['chess'\].*does not have"),
    ({}, {"clients_per_region": 50}, "rows cannot give 50 clients at least 20 each"),
    ({"category_column": "shelf"}, {"regions": 9}, "has 6 categories .* 9 regions; set data.regions"),
    ({"vocabulary": "nowhere.txt"}, {"clients_per_region": 1}, r"nowhere\.txt does not exist"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "data", "message"), WRONG)
def test_what_is_wrong_is_named_with_its_fix(tmp_path, files, data, message):
    path = write(tmp_path / "a.csv", records())
    with pytest.raises(RegionFedError, match=message) as caught:
        open_data(section(path, data=data, **files), 0)
    assert isinstance(caught.value, DataError | ConfigError)


def test_files_that_are_not_there_or_not_tables(tmp_path):
    with pytest.raises(DataError, match=r"gone\.csv does not exist .*correct `path`"):
        open_data(section(tmp_path / "gone.csv"), 0)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match=r"format cannot be told from the ending '\.txt'"):
        open_data(section(tmp_path / "a.txt"), 0)
    (tmp_path / "b.jsonl").write_text('{"question": "x", "answer": "wet"}\n{broken\n')
    with pytest.raises(DataError, match=r"b\.jsonl, line 2: not JSON"):
        open_data(section(tmp_path / "b.jsonl"), 0)
    (tmp_path / "c.csv").write_bytes("question,answer\ncaf\xe9,wet\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"c\.csv is not UTF-8"):
        open_data(section(tmp_path / "c.csv"), 0)


def test_pattern_without_files_or_without_client(tmp_path):
    data = open_data(section(tmp_path / "{client}.csv"), 0)
    with pytest.raises(DataError, match="no file of region r00 matches"):
        data.clients("r00")
    with pytest.raises(DataError, match=r"has \{region\} without \{client\}"):
        open_data(section(tmp_path / "{region}.csv"), 0)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"task": "intent"}, "needs `path`"),
        ({"path": "a.csv"}, "needs `task` or `task_column`"),
        ({"path": "a.csv", "task_column": "t"}, "needs `tasks` in"),
        ({"path": "a.csv", "task": "intent", "task_column": "t"}, "not both"),
        ({"path": "a.csv", "task": "intent", "client_column": "c"}, "needs `region_column` too"),
        (
            {"path": "a.csv", "task": "intent", "test_share": 0.6, "validation_share": 0.4},
            "must leave rows to train on",
        ),
        ({"path": "a.csv", "task": "intent", "colour": "red"}, "Extra inputs"),
    ],
)
def test_sections_that_cannot_work_are_refused(files, message):
    with pytest.raises(ValidationError, match=message):
        DataConfig(source="files", files=files)
