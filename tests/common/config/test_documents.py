"""Generated documents match the code: regenerate with `regionfed schema --docs docs`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regionfed.config.document import generated_documents, schema_text
from regionfed.config.keys import fields

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", ["federation.schema.json", "configuration.md", "result.md"])
def test_document_has_not_drifted(name: str) -> None:
    assert (DOCS / name).read_text() == generated_documents()[name], (
        "run: regionfed schema --docs docs"
    )


def test_schema_knows_every_section_and_refuses_unknown_keys() -> None:
    schema = json.loads(schema_text())
    assert {"run", "data", "model", "training", "method", "privacy"} <= schema["properties"].keys()
    assert schema["additionalProperties"] is False


def test_every_key_stands_in_the_reference() -> None:
    text = generated_documents()["configuration.md"]
    for key, _ in fields():
        assert f"| `{key.rpartition('.')[2]}` |" in text, key


def test_every_key_is_described() -> None:
    assert [key for key, field in fields() if not field.description] == []
