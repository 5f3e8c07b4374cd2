"""Small models with data, for training tests."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from regionfed.data.types import Row
from regionfed.models.base import EncodedRows, FederatedModel
from regionfed.models.build import build_model
from regionfed.models.config import ModelConfig
from regionfed.models.flat import FlatModel
from regionfed.tasks.spec import TaskKind, TaskSpec

WORDS = [f"w{place}" for place in range(30)]
INTENT = TaskSpec("intent", TaskKind.CLASSIFICATION, ("low", "high"), "intent:")
SPELL = TaskSpec("spell", TaskKind.TEXT, (), "spell:")
NER = TaskSpec("ner", TaskKind.TAGGING, ("O", "B-EVEN"), "ner:")
DIGIT = TaskSpec("digit", TaskKind.IMAGE, ("0", "1", "2", "3"))
TEXT = (INTENT, SPELL, NER)


@dataclass(frozen=True)
class Toy:
    """A model, its flat vector and one client's rows."""

    model: FederatedModel
    flat: FlatModel
    data: EncodedRows
    tasks: tuple[TaskSpec, ...]


def text_rows(count: int, *, seed: int, tasks: tuple[TaskSpec, ...] = TEXT) -> list[Row]:
    """Rows whose answers follow from their words."""
    source = random.Random(seed)
    rows = []
    for place in range(count):
        numbers = [source.randrange(30) for _ in range(source.randint(1, 5))]
        text = " ".join(WORDS[number] for number in numbers)
        task = tasks[place % len(tasks)]
        answer = {
            "intent": "low" if numbers[0] < 15 else "high",
            "spell": text,
            "ner": " ".join("O" if number % 2 else "B-EVEN" for number in numbers),
        }[task.name]
        rows.append(Row(task.name, text, answer))
    return rows


def image_rows(count: int, *, seed: int) -> list[Row]:
    """Images whose brightest quarter is the label."""
    source = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        label = int(source.integers(4))
        image = source.integers(0, 80, (28, 28)).astype(np.uint8)
        row, column = divmod(label, 2)
        image[14 * row : 14 * row + 14, 14 * column : 14 * column + 14] += 150
        rows.append(Row("digit", "", str(label), image))
    return rows


def toy(kind: str, *, count: int = 24, seed: int = 0) -> Toy:
    """'t5', 'roberta', 'heads' (frozen encoder), 'lenet' or 'resnet', all tiny."""
    configs = {
        "t5": ModelConfig(preset="tiny"),
        "roberta": ModelConfig(kind="roberta", preset="tiny"),
        "heads": ModelConfig(kind="roberta", preset="tiny", freeze="encoder"),
        "lenet": ModelConfig(kind="cnn", preset="tiny"),
        "resnet": ModelConfig(kind="cnn", preset="tiny", cnn="resnet"),
    }
    tasks = {"t5": TEXT, "roberta": (INTENT, NER), "heads": (INTENT, NER)}.get(kind, (DIGIT,))
    model = build_model(configs[kind], tasks=tasks, vocabulary=WORDS, seed=seed)
    rows = (
        image_rows(count, seed=seed)
        if tasks == (DIGIT,)
        else text_rows(count, seed=seed, tasks=tasks)
    )
    return Toy(model, FlatModel(model.module), model.encode(rows), tasks)
