"""Every field of every message, and which may say something in a private mode.

A new field fails here until someone has written down what it may carry with privacy on.
"""

from __future__ import annotations

import importlib
import pkgutil

import regionfed.messages as package
from regionfed.messages import WireMessage

ALWAYS, PRIVATE_EMPTY, NOISED, PUBLIC = "always", "empty", "noised or summed", "public"

# Field -> what it may hold with privacy on. `always`: names, numbers and settings that are known
# to both ends. `public`: models and scalars made of releases, and keys. `noised or summed`: the
# only way in which a client's data shows. `empty`: never filled.
TABLE: dict[str, dict[str, str]] = {
    "TrainOrder": {
        **dict.fromkeys(("run", "region", "round", "digest", "layout", "attempt"), ALWAYS),
        "channel": ALWAYS,
        # C follows from noised, charged bits.
        **dict.fromkeys(("start", "step", "clipping_norm"), PUBLIC),
        # SCAFFOLD is refused in every private mode (regionfed.config.checks_rivals).
        **dict.fromkeys(("buffers", "control", "control_round"), PRIVATE_EMPTY),
    },
    "EvaluateOrder": {
        **dict.fromkeys(("run", "region", "round", "digest", "layout", "attempt"), ALWAYS),
        **dict.fromkeys(("levels", "serve", "work", "channel", "user", "keep"), ALWAYS),
        **dict.fromkeys(("base", "direction", "step", "clipping_norm", "region_update"), PUBLIC),
        **dict.fromkeys(("buffers", "rhos"), PRIVATE_EMPTY),
    },
    "SecureOrder": {
        **dict.fromkeys(("run", "region", "round", "digest", "channel"), ALWAYS),
        **dict.fromkeys(("step", "following"), PUBLIC),
    },
    "RegionOrder": {
        **dict.fromkeys(("run", "round", "rounds", "digest", "layout", "final"), ALWAYS),
        **dict.fromkeys(("theta", "mean_update", "shared"), PUBLIC),
        **dict.fromkeys(("buffers", "control"), PRIVATE_EMPTY),
    },
    "ClientUpdate": {
        **dict.fromkeys(("client", "round"), ALWAYS),
        **dict.fromkeys(
            ("examples", "steps", "loss", "update", "buffers", "labels", "control"), PRIVATE_EMPTY
        ),
    },
    "ClientScores": {
        **dict.fromkeys(("client", "round"), ALWAYS),
        **dict.fromkeys(("counts", "losses", "loss_rows", "examples", "work"), PRIVATE_EMPTY),
    },
    "Kept": dict.fromkeys(("client", "round"), ALWAYS),
    "SummedVector": {
        **dict.fromkeys(("client", "round"), ALWAYS),
        "words": NOISED,
        "receipt": PUBLIC,
    },
    "SecureAnswer": {
        **dict.fromkeys(("client", "round"), ALWAYS),
        **dict.fromkeys(("step", "following"), PUBLIC),
    },
    "Refusal": dict.fromkeys(("error", "reason"), ALWAYS),
    "RegionUpdate": {
        **dict.fromkeys(("region", "round", "weight", "skipped", "report"), ALWAYS),
        **dict.fromkeys(("update", "sketch"), NOISED),
        **dict.fromkeys(("buffers", "control"), PRIVATE_EMPTY),
    },
    "RegionScores": {
        **dict.fromkeys(("region", "round", "skipped", "report"), ALWAYS),
        "personal": PUBLIC,
        "counts": NOISED,
    },
    "GroupUpdates": {
        # A diagnosis is refused in every private mode (regionfed.diagnosis.settings).
        **dict.fromkeys(
            (
                *("region", "round", "skipped", "groups", "clients", "buffers", "examples"),
                *("loss", "labels", "report"),
            ),
            PRIVATE_EMPTY,
        ),
    },
}

UPWARD = ("SummedVector", "SecureAnswer", "Kept", "Refusal")
"""The kinds that a client may send in a private mode."""


def messages() -> dict[str, type[WireMessage]]:
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return {
        cls.__name__: cls
        for cls in WireMessage.__subclasses__()
        if cls.__module__.startswith(package.__name__)
    }


def test_every_field_of_every_message_is_in_the_table() -> None:
    declared = {name: set(cls.declared()) for name, cls in messages().items()}
    assert declared == {name: set(fields) for name, fields in TABLE.items()}


def test_only_summed_vectors_speak_of_a_clients_data() -> None:
    for name in UPWARD:
        assert PRIVATE_EMPTY not in TABLE[name].values()
    assert [field for field, may in TABLE["SummedVector"].items() if may == NOISED] == ["words"]
