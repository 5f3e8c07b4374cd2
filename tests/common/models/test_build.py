"""Every architecture through the one interface."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy_tasks import DIGIT, INTENT, NER, SPELL

from regionfed.data.types import Row
from regionfed.errors import ModelError
from regionfed.models.base import FederatedModel
from regionfed.models.build import build_model
from regionfed.models.config import LoraConfig, ModelConfig
from regionfed.models.flat import FlatModel
from regionfed.tasks.spec import TaskKind, TaskSpec

TINY_T5 = ModelConfig(preset="tiny")
TINY_ROBERTA = ModelConfig(kind="roberta", preset="tiny")
TEXT = (INTENT, SPELL, NER)
HEADS = (INTENT, NER)
CPU = torch.device("cpu")


def learn(model: FederatedModel, rows: list[Row], *, steps: int, rate: float) -> list[str]:
    """Train on all rows at once; returns the answers afterwards."""
    flat = FlatModel(model.module)
    data = model.encode(rows)
    batch = data.batch(torch.arange(len(rows)), CPU)
    optimizer = torch.optim.Adam([flat.weights], lr=rate)
    model.module.train()
    for _ in range(steps):
        flat.open_gradient()
        model.loss(batch).backward()
        optimizer.step()
    model.module.eval()
    with torch.no_grad():
        return model.predict(batch)


def heads_rows(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.task != "spell"]


def test_t5_learns_all_tasks(text_rows: list[Row], words: list[str]) -> None:
    model = build_model(TINY_T5, tasks=TEXT, vocabulary=words, seed=0)
    answers = learn(model, text_rows, steps=120, rate=1e-2)
    assert answers == [row.target for row in text_rows]


def test_aligned_tagging_generalises_where_a_sequence_of_tags_does_not() -> None:
    order = np.random.default_rng(0)
    names, things = [f"brand{i}" for i in range(12)], [f"thing{i}" for i in range(12)]

    def row() -> Row:
        drawn = [
            (names if brand else things)[int(order.integers(12))]
            for brand in order.integers(2, size=int(order.integers(2, 7)))
        ]
        tags = " ".join("BRAND" if word.startswith("brand") else "O" for word in drawn)
        return Row("tags", " ".join(drawn), tags)

    task = TaskSpec("tags", TaskKind.TAGGING, ("O", "BRAND"))
    seen, unseen = [row() for _ in range(64)], [row() for _ in range(64)]
    right = {}
    for tagging in ("sequence", "aligned"):
        config = ModelConfig.model_validate({**TINY_T5.model_dump(), "tagging": tagging})
        model = build_model(config, tasks=(task,), vocabulary=names + things, seed=0)
        learn(model, seen, steps=60, rate=1e-2)
        batch = model.encode(unseen).batch(torch.arange(64), CPU)
        answers = model.predict(batch)
        right[tagging] = np.mean([a == r.target for a, r in zip(answers, unseen, strict=True)])
        assert all(
            len(a.split()) == len(r.text.split()) for a, r in zip(answers, unseen, strict=True)
        )
    assert right["aligned"] > 0.85
    assert right["aligned"] > right["sequence"] + 0.2


def test_aligned_tags_are_those_that_training_sees(text_rows: list[Row], words: list[str]) -> None:
    config = ModelConfig.model_validate({**TINY_T5.model_dump(), "tagging": "aligned"})
    model = build_model(config, tasks=TEXT, vocabulary=words, seed=0)
    answers = learn(model, text_rows, steps=120, rate=1e-2)
    assert answers == [row.target for row in text_rows]
    rows = [row for row in text_rows if row.task == "ner"]
    alone = model.predict(model.encode(rows).batch(torch.arange(len(rows)), CPU))
    assert alone == [row.target for row in rows]


@pytest.mark.parametrize("freeze", ["none", "embeddings", "encoder"])
def test_roberta_learns_classes_and_tags(
    freeze: str, text_rows: list[Row], words: list[str]
) -> None:
    config = ModelConfig.model_validate({**TINY_ROBERTA.model_dump(), "freeze": freeze})
    model = build_model(config, tasks=HEADS, vocabulary=words, seed=0)
    rows = heads_rows(text_rows)
    answers = learn(model, rows, steps=120, rate=2e-2)
    assert answers == [row.target for row in rows]


@pytest.mark.parametrize("kind", ["lenet", "resnet"])
def test_cnn_learns_characters(kind: str, image_rows: list[Row]) -> None:
    config = ModelConfig.model_validate({"kind": "cnn", "preset": "tiny", "cnn": kind})
    model = build_model(config, tasks=(DIGIT,), seed=0)
    answers = learn(model, image_rows, steps=60, rate=3e-3)
    assert answers == [row.target for row in image_rows]


@pytest.mark.parametrize(
    ("config", "tasks"), [(TINY_T5, TEXT), (TINY_ROBERTA, HEADS)], ids=["t5", "roberta"]
)
def test_the_seed_gives_the_vector(
    config: ModelConfig, tasks: tuple[TaskSpec, ...], words: list[str]
) -> None:
    def vector(seed: int) -> np.ndarray:
        torch.manual_seed(seed + 17)
        return FlatModel(
            build_model(config, tasks=tasks, vocabulary=lambda: words, seed=seed).module
        ).read()

    np.testing.assert_array_equal(vector(3), vector(3))
    assert (vector(3) != vector(4)).any()


def test_building_leaves_the_random_state_alone(words: list[str]) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    build_model(TINY_T5, tasks=TEXT, vocabulary=words, seed=1)
    assert torch.equal(torch.rand(1), expected)


def test_t5_embedding_counts_once_and_stays_tied(words: list[str]) -> None:
    model = build_model(TINY_T5, tasks=TEXT, vocabulary=words, seed=0)
    flat = FlatModel(model.module)
    in_state = sum(t.numel() for t in model.module.state_dict().values())
    embedding = model.module.get_parameter("shared.weight")
    assert in_state > flat.layout.size
    assert sum(name.endswith("shared.weight") for name in flat.layout.names) == 1
    assert not any(name.startswith("lm_head") for name in flat.layout.names)
    flat.write(np.full(flat.layout.size, 0.5, dtype=np.float32))
    state = model.module.state_dict()
    for name in ("lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        assert state[name].data_ptr() == embedding.data_ptr()
        assert bool((state[name] == 0.5).all())


def test_lora_vector_is_the_adapter(text_rows: list[Row], words: list[str]) -> None:
    config = ModelConfig(preset="tiny", lora=LoraConfig(rank=4))
    model = build_model(config, tasks=TEXT, vocabulary=words, seed=0)
    base = {n: p.detach().clone() for n, p in model.module.named_parameters() if "lora" not in n}
    flat = FlatModel(model.module)
    assert all("lora_" in name for name in flat.layout.names)
    # Query and value of three attentions, two matrices of rank 4 and width 32 each.
    assert flat.layout.size == 3 * 2 * 2 * 4 * 32
    before = flat.read()
    learn(model, text_rows, steps=3, rate=1e-2)
    assert (FlatModel(model.module).read() != before).any()
    for name, parameter in model.module.named_parameters():
        if "lora" not in name:
            assert torch.equal(parameter, base[name])


def test_lora_keeps_heads_and_may_halve_what_is_frozen(
    text_rows: list[Row], words: list[str]
) -> None:
    config = ModelConfig(kind="roberta", preset="tiny", lora=LoraConfig(), frozen_precision="bf16")
    model = build_model(config, tasks=HEADS, vocabulary=words, seed=0)
    layout = FlatModel(model.module).layout
    assert any(name.startswith("classifiers.") for name in layout.names)
    frozen = [p for p in model.module.parameters() if not p.requires_grad]
    assert {p.dtype for p in frozen} == {torch.bfloat16}
    assert learn(model, heads_rows(text_rows), steps=1, rate=1e-3)


def test_unknown_adapter_target_lists_the_layers(words: list[str]) -> None:
    config = ModelConfig(preset="tiny", lora=LoraConfig(targets=("nowhere",)))
    with pytest.raises(ModelError, match=r"nowhere.*linear layers are .*\bq\b"):
        build_model(config, tasks=TEXT, vocabulary=words, seed=0)


def test_frozen_features_give_the_same_loss_as_the_encoder(
    text_rows: list[Row], words: list[str]
) -> None:
    rows = heads_rows(text_rows)
    losses = []
    for cache in (True, False):
        config = ModelConfig(kind="roberta", preset="tiny", freeze="encoder", cache_features=cache)
        model = build_model(config, tasks=HEADS, vocabulary=words, seed=0)
        data = model.encode(rows)
        assert ("inputs" in data.tensors) is not cache
        losses.append(model.loss(data.batch(torch.arange(len(rows)), CPU)).detach())
    torch.testing.assert_close(losses[0], losses[1])


def test_no_rows_have_no_features(words: list[str]) -> None:
    config = ModelConfig(kind="roberta", preset="tiny", freeze="encoder", cache_features=True)
    assert len(build_model(config, tasks=HEADS, vocabulary=words, seed=0).encode([])) == 0


def test_loss_of_a_batch_is_the_mean_of_its_rows(text_rows: list[Row], words: list[str]) -> None:
    model = build_model(TINY_T5, tasks=TEXT, vocabulary=words, seed=0)
    data = model.encode(text_rows)
    single = [model.loss(data.batch(torch.tensor([i]), CPU)) for i in range(len(text_rows))]
    together = model.loss(data.batch(torch.arange(len(text_rows)), CPU))
    torch.testing.assert_close(torch.stack(single).mean(), together)


def test_t5_agrees_with_the_loss_and_generation_of_transformers(
    text_rows: list[Row], words: list[str]
) -> None:
    model = build_model(TINY_T5, tasks=TEXT, vocabulary=words, seed=0)
    learn(model, text_rows, steps=30, rate=1e-2)
    data = model.encode(text_rows[:3])
    batch = data.batch(torch.arange(3), CPU)
    own = model.module(
        input_ids=batch["inputs"], attention_mask=batch["mask"].long(), labels=batch["labels"]
    )
    each = torch.nn.functional.cross_entropy(
        own.logits.transpose(1, 2), batch["labels"], reduction="none"
    )
    per_row = each.sum(1) / (batch["labels"] >= 0).sum(1)
    torch.testing.assert_close(model.loss(batch), per_row.mean())
    generated = model.module.generate(
        input_ids=batch["inputs"],
        attention_mask=batch["mask"].long(),
        do_sample=False,
        num_beams=1,
        max_new_tokens=32,
        eos_token_id=1,
        pad_token_id=0,
    )
    expected = [model.tokenizer.decode(ids[1:]) for ids in generated.tolist()]
    assert model.predict(batch) == expected


def test_untrained_tags_are_one_per_token(words: list[str]) -> None:
    rows = [Row("ner", "red nike shoes here", "O O O O"), Row("ner", "red", "O")]
    model = build_model(TINY_T5, tasks=TEXT, vocabulary=words, seed=0)
    batch = model.encode(rows).batch(torch.arange(2), CPU)
    answers = model.predict(batch)
    assert [len(answer.split()) for answer in answers] == [4, 1]
    assert {tag for answer in answers for tag in answer.split()} <= set(NER.labels)


@pytest.mark.parametrize(
    ("config", "tasks", "says"),
    [
        (TINY_ROBERTA, TEXT, r"'spell'.*'text'.*model.kind = 't5'"),
        (TINY_T5, (DIGIT,), r"'digit'.*'image'.*'cnn'"),
        (ModelConfig(kind="cnn"), (INTENT,), r"'intent'.*'classification'"),
        (TINY_ROBERTA, (TaskSpec("empty", INTENT.kind),), r"'empty'.*no labels"),
        (TINY_T5, (), "no task"),
        (ModelConfig(kind="roberta", d_model=30, heads=4), HEADS, "not a multiple"),
    ],
)
def test_a_model_that_does_not_fit_its_tasks(
    config: ModelConfig, tasks: tuple[TaskSpec, ...], says: str
) -> None:
    with pytest.raises(ModelError, match=says):
        build_model(config, tasks=tasks, seed=0)


def test_rows_that_do_not_fit(words: list[str]) -> None:
    heads = build_model(TINY_ROBERTA, tasks=HEADS, vocabulary=words, seed=0)
    with pytest.raises(ModelError, match="task 'other'"):
        heads.encode([Row("other", "red", "x")])
    with pytest.raises(ModelError, match=r"'sell'.*'intent'.*buy"):
        heads.encode([Row("intent", "red", "sell")])
    cnn = build_model(ModelConfig(kind="cnn", preset="tiny"), tasks=(DIGIT,), seed=0)
    with pytest.raises(ModelError, match="no image"):
        cnn.encode([Row("digit", "", "1")])
    with pytest.raises(ModelError, match=r"\(20, 20\)"):
        cnn.encode([Row("digit", "", "1", np.zeros((20, 20), dtype=np.uint8))])


@pytest.mark.parametrize(
    ("config", "tasks"), [(TINY_T5, TEXT), (TINY_ROBERTA, HEADS)], ids=["t5", "roberta"]
)
def test_rows_without_answers_can_be_answered_and_wrong_ones_are_refused(
    config: ModelConfig, tasks: tuple[TaskSpec, ...], words: list[str]
) -> None:
    model = build_model(config, tasks=tasks, vocabulary=words, seed=0)
    rows = [Row(task.name, "red nike shoes", "") for task in tasks]
    answers = model.predict(model.encode(rows).batch(torch.arange(len(rows)), CPU))
    assert len(answers[-1].split()) == 3
    for wrong in (Row("ner", "red", "B-COLOUR"), Row("intent", "red", "sell")):
        with pytest.raises(ModelError, match=rf"'{wrong.target}' is not a label.*'{wrong.task}'"):
            model.encode([wrong])


def test_heads_are_named(words: list[str]) -> None:
    for config, tasks in ((TINY_T5, TEXT), (TINY_ROBERTA, HEADS)):
        model = build_model(config, tasks=tasks, vocabulary=words, seed=0)
        layout = FlatModel(model.module).layout
        chosen = layout.mask(lambda name, model=model: name.startswith(model.head))
        assert 0 < chosen.sum() < layout.size
