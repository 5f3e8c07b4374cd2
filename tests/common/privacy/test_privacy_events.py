"""Events survive their dictionary form and nothing unknown does."""

from __future__ import annotations

import dataclasses
import json

import pytest

from regionfed.errors import PrivacyError
from regionfed.privacy import events as ev

EVERY_KIND: list[ev.Event] = [
    ev.TrainingUpdate(round=1, noise_multiplier=4.0, with_look_ahead=True, bands=10),
    ev.LookAheadUpdate(round=1, noise_multiplier=4.0),
    ev.ConflictSketch(round=1, noise_multiplier=4.0, width=32),
    ev.LossGrid(round=1, noise_multiplier=4.0, points=5),
    ev.ClipBit(round=1, noise_multiplier=4.0, sampling=ev.Sampling.POISSON, sample_rate=0.1),
    ev.EvaluationMetrics(round=1, noise_multiplier=4.0, values=3, noise=ev.Noise.SKELLAM),
    ev.IntentHistogram(round=0, noise_multiplier=4.0),
    ev.DatasetSize(round=0, noise_multiplier=4.0),
    ev.RegionalMeanRelease(round=1, noise_multiplier=4.0),
    ev.RawQuery(round=1, what="losses for rho"),
    ev.ExampleLevelTraining(
        round=1, attempt=2, client="c", noise_multiplier=1.0, sample_rate=0.1, steps=8
    ),
]


def test_every_kind_is_covered_here() -> None:
    assert {event.kind for event in EVERY_KIND} == set(ev.EVENT_KINDS)


@pytest.mark.parametrize("event", EVERY_KIND, ids=lambda event: event.kind)
def test_round_trip(event: ev.Event) -> None:
    assert ev.from_dict(json.loads(json.dumps(ev.to_dict(event)))) == event
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.round = 7  # type: ignore[misc]  # the point of the test


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "telepathy"}, "unknown privacy event kind 'telepathy'"),
        ({"kind": ["clip-bit"]}, "unknown privacy event kind"),
        ({"loss": 0.3}, "unknown fields \\['loss'\\]"),
        ({"noise_multiplier": "4"}, "clip-bit.noise_multiplier = '4' is not a float"),
        ({"round": True}, "clip-bit.round = True is not a int"),
        ({"sampling": "lucky"}, "lucky"),
        ({"noise_multiplier": 0.0}, "a RawQuery"),
        ({"noise_multiplier": float("inf")}, "finite"),
        ({"sample_rate": 1.5}, "sample rate"),
        ({"round": -1}, ">= 0"),
    ],
)
def test_damaged_records_are_refused(change: dict[str, object], message: str) -> None:
    record = ev.to_dict(ev.ClipBit(round=1, noise_multiplier=4.0)) | change
    with pytest.raises(PrivacyError, match=message):
        ev.from_dict(record)


def test_a_missing_field_is_refused() -> None:
    record = ev.to_dict(ev.ClipBit(round=1, noise_multiplier=4.0))
    del record["attempt"]
    with pytest.raises(PrivacyError, match="lacks \\['attempt'\\]"):
        ev.from_dict(record)
