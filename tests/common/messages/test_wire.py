"""Typed messages: what is declared travels, everything else is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from regionfed.errors import UpdateError
from regionfed.messages import (
    ClientScores,
    ClientUpdate,
    EvaluateOrder,
    Refusal,
    RegionOrder,
    RegionScores,
    RegionUpdate,
    TrainOrder,
    Vector,
    WireMessage,
    finite_vector,
    message_kind,
)

ALL = [
    ClientScores,
    ClientUpdate,
    EvaluateOrder,
    Refusal,
    RegionOrder,
    RegionScores,
    RegionUpdate,
    TrainOrder,
]


@dataclass(frozen=True)
class Sample(WireMessage):
    number: int
    ratio: float
    name: str
    vector: Vector
    blob: bytes = b""
    more: Vector | None = None
    table: dict[str, Any] | None = None
    points: tuple[float, ...] = ()


def sample(**changes: Any) -> Sample:
    given: dict[str, Any] = {
        "number": 3,
        "ratio": 0.25,
        "name": "north",
        "vector": np.arange(4, dtype=np.float32),
        "blob": b"\x00\xff",
        "table": {"a": {"b": 1.5}},
        "points": (0.0, 0.5),
    }
    return Sample(**{**given, **changes})


def test_a_message_survives_the_way_there_and_back() -> None:
    sent = sample()
    got = Sample.from_record(sent.to_record())
    np.testing.assert_array_equal(got.vector, sent.vector)
    assert (got.number, got.ratio, got.name, got.blob) == (3, 0.25, "north", b"\x00\xff")
    assert got.more is None
    assert got.table == {"a": {"b": 1.5}}
    assert got.points == (0.0, 0.5)


def test_an_undeclared_field_is_refused_by_name() -> None:
    record = sample().to_record()
    record["config"] = ConfigRecord({**record.config_records["config"], "address": "x"})
    with pytest.raises(UpdateError, match=r"undeclared fields.*address"):
        Sample.from_record(record)


def test_an_undeclared_array_is_refused_by_name() -> None:
    record = sample().to_record()
    record["arrays"]["raw"] = Array(np.ones(2, dtype=np.float32))
    with pytest.raises(UpdateError, match=r"undeclared fields.*raw"):
        Sample.from_record(record)


def test_another_kind_of_message_is_refused() -> None:
    with pytest.raises(UpdateError, match="expected a Sample message, got Refusal"):
        Sample.from_record(Refusal(error="x", reason="y").to_record())


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.ones((2, 2), dtype=np.float32), "1-dimensional"),
        (np.ones(3, dtype=np.float64), "float32"),
    ],
)
def test_an_array_of_another_shape_or_type_is_refused(value: Any, reason: str) -> None:
    record = sample().to_record()
    record["arrays"] = ArrayRecord({"vector": Array(value)})
    with pytest.raises(UpdateError, match=reason):
        Sample.from_record(record)


def test_pickled_objects_are_not_read() -> None:
    record = sample().to_record()
    array = Array("object", (1,), "numpy.ndarray", b"\x80\x04N.")
    record["arrays"] = ArrayRecord({"vector": array})
    with pytest.raises(UpdateError, match="unreadable array"):
        Sample.from_record(record)


def test_a_missing_field_is_named() -> None:
    record = sample().to_record()
    del record["config"]["name"]
    with pytest.raises(UpdateError, match="without its field `name`"):
        Sample.from_record(record)


def test_kind_of_a_foreign_record_is_empty() -> None:
    assert message_kind(RecordDict()) == ""


@pytest.mark.parametrize("message", ALL)
def test_no_message_declares_a_field_for_the_users_own_part(message: type[WireMessage]) -> None:
    names = {field.name for field in fields(message)}
    assert not {name for name in names if "theta_u" in name or "user_part" in name}


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (None, "missing"),
        (np.ones(3, dtype=np.float32), "length 3, expected 2"),
        (np.array([1, np.nan], dtype=np.float32), "NaN or infinity"),
        (np.array([1, np.inf], dtype=np.float32), "NaN or infinity"),
    ],
)
def test_an_unusable_vector_is_named(vector: Any, reason: str) -> None:
    with pytest.raises(UpdateError, match=reason):
        finite_vector("update", vector, 2)
