"""The `[data]` section: defaults, names, and what it refuses."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from regionfed.data.config import DataConfig


def test_regions_are_a_number_or_names():
    assert DataConfig().region_names(default=2) == ("r00", "r01")
    assert DataConfig(regions=3).region_names(default=2) == ("r00", "r01", "r02")
    assert DataConfig(regions=["north", "south"]).region_names(default=9) == ("north", "south")
    assert DataConfig(clients_per_region=2).client_names(default=10) == ("c00", "c01")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"regions": 0}, "0 regions; allowed are 1 to 1000"),
        ({"regions": []}, "empty list"),
        ({"regions": ["a", "a"]}, "named twice"),
        ({"regions": ["../etc"]}, "not a region's name"),
        ({"tasks": ["ner", "ner"]}, "named twice"),
        ({"source": "cloud"}, "Input should be 'builtin'"),
        ({"partition": {"alpha": 0}}, "greater than 0"),
        ({"builtin": {"conflict": 1.5}}, "less than or equal to 1"),
        ({"colour": 1}, "Extra inputs"),
    ],
)
def test_what_it_refuses(keys, message):
    with pytest.raises(ValidationError, match=message):
        DataConfig(**keys)


def test_every_key_has_a_description():
    def undescribed(model: type[BaseModel], where: str) -> list[str]:
        found = []
        for name, field in model.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                found += undescribed(kind, f"{where}.{name}")
            elif not field.description:
                found.append(f"{where}.{name}")
        return found

    assert undescribed(DataConfig, "data") == []
