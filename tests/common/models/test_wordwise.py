"""Text to text word by word."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from toy_tasks import DIGIT, INTENT, NER, SPELL

from regionfed.data.types import Row
from regionfed.errors import ModelError
from regionfed.models.build import build_model
from regionfed.models.config import ModelConfig
from regionfed.models.describe import describe
from regionfed.models.flat import FlatModel
from regionfed.models.head import head_mask
from regionfed.models.wordwise import WordwiseModel
from regionfed.tasks.spec import TaskKind, TaskSpec
from regionfed.training.batched import batched_train, can_stack
from regionfed.training.config import TrainingConfig
from regionfed.training.local import local_train

LETTERS = ModelConfig(preset="tiny", tokenizer="letters")
TEXT = (INTENT, SPELL, NER)
HEADS = (INTENT, NER)
CPU = torch.device("cpu")
TRAINING = TrainingConfig(optimizer="adam", learning_rate=0.01, batch_size=5, steps=80)


def build(words: list[str], *, seed: int = 0) -> WordwiseModel:
    model = build_model(LETTERS, tasks=TEXT, vocabulary=words, seed=seed)
    assert isinstance(model, WordwiseModel)
    return model


def answers(model: WordwiseModel, rows: list[Row]) -> list[str]:
    return model.predict(model.encode(rows).batch(torch.arange(len(rows)), CPU))


def test_learns_all_tasks(text_rows: list[Row], words: list[str]) -> None:
    model = build(words)
    flat = FlatModel(model.module)
    local_train(model, flat, model.encode(text_rows), TRAINING, seed=0)
    model.module.eval()
    assert answers(model, text_rows) == [row.target for row in text_rows]


def test_corrects_words_whose_errors_it_has_not_seen() -> None:
    """Nearness in letters is there from the start; what an error looks like carries over."""
    drawn = np.random.default_rng(0)
    known = ["".join(drawn.choice(list("abcdefghijklmnop"), size=7)) for _ in range(60)]
    rows = [Row("spell", word[:at] + word[at + 1 :], word) for word in known[:40] for at in (2, 4)]
    rows += [Row("spell", word, word) for word in known[:40]]
    model = build(known)
    training = TrainingConfig(optimizer="adam", learning_rate=0.003, batch_size=24, steps=100)
    local_train(model, FlatModel(model.module), model.encode(rows), training, seed=0)
    model.module.eval()
    unseen = [
        Row("spell", word[:at] + word[at + 1 :], word) for word in known[40:] for at in (3, 5)
    ]
    given = answers(model, unseen)
    right = np.mean([a == row.target for a, row in zip(given, unseen, strict=True)])
    assert right > 0.45  # of 60 words; leaving them as they are corrects none


def test_what_cannot_be_written_is_not_learnt_from(words: list[str]) -> None:
    model = build(words)
    rows = [
        Row("spell", "redshoes", "red shoes"),  # another number of words
        Row("spell", "unknwon", "unknown"),  # a word that is not listed
        Row("spell", "unlisted", "unlisted"),  # can be kept
        Row("spell", "rde", "red"),
    ]
    losses = model.row_losses(model.encode(rows).batch(torch.arange(4), CPU))
    assert [bool(loss > 0) for loss in losses] == [False, False, True, True]


def test_answers_are_those_of_the_task(words: list[str]) -> None:
    """Untrained: one tag per word, one label, and texts of as many words, whatever comes."""
    model = build(words)
    rows = [
        Row("ner", "red nike shoes here", "O O O O"),
        Row("ner", "red", "O"),
        Row("intent", "red", "buy"),
        Row("spell", "çédille 鞋 x-9", ""),
        Row("ner", "", ""),
    ]
    tags, tag, label, text, nothing = answers(model, rows)
    assert [len(each.split()) for each in (tags, tag, text)] == [4, 1, 3]
    assert {*tags.split(), tag} <= set(NER.labels)
    assert label in INTENT.labels
    assert nothing == ""


def test_long_texts_are_cut_and_kept(words: list[str]) -> None:
    config = ModelConfig.model_validate(
        {**LETTERS.model_dump(), "max_target_length": 4, "max_input_length": 4}
    )
    model = build_model(config, tasks=TEXT, vocabulary=words, seed=0)
    text = " ".join(f"w{place}" for place in range(9))
    rows = [Row("spell", text, text), Row("ner", text, " ".join(["O"] * 9))]
    data = model.encode(rows)
    assert data.tensors["labels"].shape == (2, 4)
    corrected, tags = model.predict(data.batch(torch.arange(2), CPU))
    assert corrected.split()[4:] == text.split()[4:]
    assert len(tags.split()) == 4


def test_equal_labels_of_two_tasks_are_apart() -> None:
    tasks = (
        TaskSpec("a", TaskKind.CLASSIFICATION, ("yes", "no")),
        TaskSpec("b", TaskKind.CLASSIFICATION, ("no", "yes")),
    )
    model = build_model(LETTERS, tasks=tasks, seed=0)
    assert isinstance(model, WordwiseModel)
    rows = [Row(task, text, label) for task in "ab" for text, label in (("x", "yes"), ("y", "no"))]
    local_train(model, FlatModel(model.module), model.encode(rows), TRAINING, seed=0)
    model.module.eval()
    assert answers(model, rows) == ["yes", "no", "yes", "no"]


def test_a_batch_is_its_rows(text_rows: list[Row], words: list[str]) -> None:
    """Neither the other rows nor their length change a row."""
    model = build(words)
    data = model.encode(text_rows)
    alone = [model.row_losses(data.batch(torch.tensor([i]), CPU)) for i in range(len(text_rows))]
    together = model.row_losses(data.batch(torch.arange(len(text_rows)), CPU))
    torch.testing.assert_close(torch.cat(alone), together)


def test_the_seed_gives_the_vector_and_nothing_is_allocated_to_plan(words: list[str]) -> None:
    first, again, other = (FlatModel(build(words, seed=seed).module).read() for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    told = describe(LETTERS, tasks=TEXT, vocabulary=words)
    assert told.parameters == first.size
    assert told.integer_buffers == ()
    assert told.buffers == 0


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_stacked_clients_are_single_ones(text_rows: list[Row], words: list[str]) -> None:
    model = build(words)
    flat = FlatModel(model.module)
    assert can_stack(model, flat, TRAINING)
    start = flat.read()
    data = [model.encode(text_rows), model.encode(text_rows[:3])]
    config = TrainingConfig(optimizer="sgd", learning_rate=0.1, batch_size=2, steps=3)
    one, stacked = (
        batched_train(model, flat, data, config, seeds=[1, 2], starts=start, mode=mode)
        for mode in ("one-by-one", "stacked")
    )
    for a, b in zip(one, stacked, strict=True):
        np.testing.assert_allclose(a.update, b.update, atol=2e-6, rtol=1e-3)


@pytest.mark.parametrize(
    ("freeze", "frozen"), [("embeddings", "vectors."), ("encoder", "core.encoder.")]
)
def test_parts_can_be_frozen(freeze: str, frozen: str, words: list[str]) -> None:
    config = ModelConfig.model_validate({**LETTERS.model_dump(), "freeze": freeze})
    model = build_model(config, tasks=TEXT, vocabulary=words, seed=0)
    layout = FlatModel(model.module).layout
    assert not any(name.startswith(frozen) for name in layout.names)


def test_the_head_is_the_last_block(words: list[str]) -> None:
    model = build(words)
    layout = FlatModel(model.module).layout
    assert model.head == ("core.decoder.block.0.",)
    assert 0 < head_mask(model, layout).sum() < layout.size


def test_what_does_not_go_with_letters() -> None:
    for other in ({"kind": "roberta"}, {"lora": {}}, {"kind": "hub", "checkpoint": "x"}):
        with pytest.raises(ValidationError, match="tokenizer = 'letters'"):
            ModelConfig.model_validate({"tokenizer": "letters", **other})
    with pytest.raises(ModelError, match=r"'digit'.*'image'.*'cnn'"):
        build_model(LETTERS, tasks=(DIGIT,), seed=0)
    with pytest.raises(ModelError, match=r"'spell' asks for text.*\[data.files\] vocabulary"):
        build_model(LETTERS, tasks=TEXT, seed=0)
    model = build_model(LETTERS, tasks=HEADS, seed=0)
    with pytest.raises(ModelError, match=r"'sell' is not a label.*'intent'"):
        model.encode([Row("intent", "red", "sell")])
    with pytest.raises(ModelError, match="task 'other'"):
        model.encode([Row("other", "red", "x")])
