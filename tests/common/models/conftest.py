"""Toy rows that every architecture can learn in a few steps."""

from __future__ import annotations

import numpy as np
import pytest

from regionfed.data.types import Row


@pytest.fixture
def words() -> list[str]:
    return ["red", "nike", "shoes", "butter", "available", "where", "is"]


@pytest.fixture
def text_rows() -> list[Row]:
    return [
        Row("intent", "red shoes", "buy"),
        Row("intent", "where is butter", "find help"),
        Row("spell", "buter avlable", "butter available"),
        Row("ner", "red nike shoes", "O B-BRAND B-PRODUCT"),
        Row("ner", "butter", "B-PRODUCT"),
    ]


@pytest.fixture
def image_rows() -> list[Row]:
    random = np.random.default_rng(0)
    return [
        Row("digit", "", str(i % 4), random.integers(0, 255, (28, 28)).astype(np.uint8))
        for i in range(8)
    ]
