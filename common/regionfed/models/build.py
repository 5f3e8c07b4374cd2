"""From `[model]` to a model: the same initial vector in every process, for the same seed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch

from regionfed.errors import ModelError
from regionfed.models.base import FederatedModel
from regionfed.models.causal import CausalModel
from regionfed.models.cnn import CnnModel, lenet, resnet
from regionfed.models.config import ModelConfig
from regionfed.models.encoder import EncoderModel
from regionfed.models.extras import require
from regionfed.models.lora import add_adapters
from regionfed.models.pretrained import load_module, objective_of, place_of, read_config
from regionfed.models.seq2seq import Seq2SeqModel
from regionfed.models.sizes import sizes_of
from regionfed.models.tokens import TextTokenizer, WordTokenizer, load_tokenizer
from regionfed.models.wordwise import WordwiseModel
from regionfed.tasks.spec import TaskKind, TaskSpec

Vocabulary = Iterable[str] | Callable[[], Iterable[str]]


def build_model(
    config: ModelConfig, *, tasks: Sequence[TaskSpec], vocabulary: Vocabulary = (), seed: int
) -> FederatedModel:
    """Build the configured model on the CPU.

    `vocabulary` gives public words in a fixed order (`FederationData.vocabulary`); it is read only
    with tokenizer = 'words'. Deterministic in the seed, and the global random state is left as it
    was.

    Raises `ModelError` when a package is missing, a checkpoint is not there, or the model cannot
    answer one of the tasks.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return assemble(config, tasks=tasks, vocabulary=vocabulary, weights=True)


def assemble(
    config: ModelConfig, *, tasks: Sequence[TaskSpec], vocabulary: Vocabulary, weights: bool
) -> FederatedModel:
    """Build on the default device; without `weights` pretrained values are not read."""
    if not tasks:
        raise ModelError("no task is configured, so there is nothing to model; add one to [data]")
    if config.kind == "factory":
        return _from_factory(config, tasks)
    if config.kind == "cnn":
        return _cnn(config, tasks)
    if config.kind == "t5":
        return _t5(config, tasks, vocabulary)
    if config.kind == "roberta":
        return _roberta(config, tasks, vocabulary)
    return _pretrained(config, tasks, weights=weights)


@contextmanager
def _storage(config: ModelConfig) -> Iterator[None]:
    """New modules in the precision in which frozen weights are kept."""
    before = torch.get_default_dtype()
    half = config.frozen_precision == "bf16" and config.lora is not None
    torch.set_default_dtype(torch.bfloat16 if half else before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _tokenizer(
    config: ModelConfig, tasks: Sequence[TaskSpec], vocabulary: Vocabulary
) -> TextTokenizer:
    if config.tokenizer != "words":
        return load_tokenizer(config.tokenizer, revision=config.revision, offline=config.offline)
    known: list[str] = []
    for task in tasks:
        known += (task.prefix.strip() or f"{task.name}:").split()
        known += [word for label in task.labels for word in label.split()]
    return WordTokenizer([*known, *_words(config, vocabulary)])


def _words(config: ModelConfig, vocabulary: Vocabulary) -> list[str]:
    words = vocabulary() if callable(vocabulary) else vocabulary
    return list(islice(dict.fromkeys(words), config.vocabulary_size))


def _cnn(config: ModelConfig, tasks: Sequence[TaskSpec]) -> CnnModel:
    sizes = sizes_of(config)
    dropout = config.dropout or 0.0
    if config.cnn == "lenet":
        trunk = lenet(image_size=config.image_size, width=sizes.d_model, dropout=dropout)
    else:
        trunk = resnet(width=sizes.d_model, layers=sizes.layers, dropout=dropout)
    return CnnModel(
        trunk,
        width=sizes.d_model,
        tasks=tasks,
        image_size=config.image_size,
        frozen=config.freeze == "encoder",
    )


def _t5(config: ModelConfig, tasks: Sequence[TaskSpec], vocabulary: Vocabulary) -> FederatedModel:
    transformers = require("transformers", extra="text", needed_for="model.kind = 't5'")
    if config.tokenizer == "letters":
        shape = transformers.T5Config(vocab_size=1, eos_token_id=None, **_t5_sizes(config))
        return _wordwise(config, transformers.T5Model(shape), tasks, vocabulary)
    tokenizer = _tokenizer(config, tasks, vocabulary)
    with _storage(config):
        module = transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=tokenizer.size,
                **_t5_sizes(config),
                pad_token_id=tokenizer.pad_id,
                eos_token_id=tokenizer.eos_id,
                decoder_start_token_id=tokenizer.pad_id,
                tie_word_embeddings=True,
            )
        )
    return _seq2seq(config, module, tasks=tasks, tokenizer=tokenizer)


def _t5_sizes(config: ModelConfig) -> dict[str, Any]:
    sizes = sizes_of(config)
    return {
        "d_model": sizes.d_model,
        "d_kv": sizes.d_kv,
        "d_ff": sizes.d_ff,
        "num_layers": sizes.layers,
        "num_heads": sizes.heads,
        "dropout_rate": config.dropout or 0.0,
    }


def _wordwise(
    config: ModelConfig, core: Any, tasks: Sequence[TaskSpec], vocabulary: Vocabulary
) -> WordwiseModel:
    model = WordwiseModel(
        core,
        tasks=tasks,
        words=_words(config, vocabulary),
        max_input_length=config.max_input_length,
        max_target_length=config.max_target_length,
    )
    if config.freeze == "embeddings":
        model.module.vectors.requires_grad_(False)
    if config.freeze == "encoder":
        core.get_encoder().requires_grad_(False)
    return model


def _seq2seq(
    config: ModelConfig, module: Any, *, tasks: Sequence[TaskSpec], tokenizer: TextTokenizer
) -> Seq2SeqModel:
    if config.freeze == "embeddings":
        module.get_input_embeddings().requires_grad_(False)
    if config.freeze == "encoder":
        module.get_encoder().requires_grad_(False)
    if config.lora is not None:
        module = add_adapters(module, config.lora)
    return Seq2SeqModel(
        module,
        tasks=tasks,
        tokenizer=tokenizer,
        max_input_length=config.max_input_length,
        max_target_length=config.max_target_length,
        aligned=config.tagging == "aligned",
    )


def _roberta(
    config: ModelConfig, tasks: Sequence[TaskSpec], vocabulary: Vocabulary
) -> EncoderModel:
    transformers = require("transformers", extra="text", needed_for="model.kind = 'roberta'")
    tokenizer = _tokenizer(config, tasks, vocabulary)
    sizes = sizes_of(config)
    with _storage(config):
        encoder = transformers.RobertaModel(
            transformers.RobertaConfig(
                vocab_size=tokenizer.size,
                hidden_size=sizes.d_model,
                num_hidden_layers=sizes.layers,
                num_attention_heads=sizes.heads,
                intermediate_size=sizes.d_ff,
                hidden_dropout_prob=config.dropout or 0.0,
                attention_probs_dropout_prob=config.dropout or 0.0,
                # Positions start after the padding id.
                max_position_embeddings=config.max_input_length + tokenizer.pad_id + 1,
                type_vocab_size=1,
                pad_token_id=tokenizer.pad_id,
                bos_token_id=tokenizer.eos_id,
                eos_token_id=tokenizer.eos_id,
            ),
            add_pooling_layer=False,
        )
    return _encoder(config, encoder, tasks=tasks, tokenizer=tokenizer)


def _encoder(
    config: ModelConfig, encoder: Any, *, tasks: Sequence[TaskSpec], tokenizer: TextTokenizer
) -> EncoderModel:
    if config.freeze == "embeddings":
        encoder.get_input_embeddings().requires_grad_(False)
    if config.lora is not None:
        encoder = add_adapters(encoder, config.lora)
    return EncoderModel(
        encoder,
        width=encoder.config.hidden_size,
        tasks=tasks,
        tokenizer=tokenizer,
        max_input_length=config.max_input_length,
        frozen=config.freeze == "encoder",
        cache_features=config.cache_features,
    )


def _pretrained(config: ModelConfig, tasks: Sequence[TaskSpec], *, weights: bool) -> FederatedModel:
    found = read_config(config)
    objective = objective_of(config, found)
    if objective == "classification" and any(task.kind is TaskKind.TEXT for task in tasks):
        named = next(task.name for task in tasks if task.kind is TaskKind.TEXT)
        raise ModelError(
            f"task {named!r} asks for text, but {place_of(config)!r} is used as an encoder with "
            "heads; choose a sequence-to-sequence or causal checkpoint, or leave the task out"
        )
    name = place_of(config) if config.tokenizer == "words" else config.tokenizer
    tokenizer = load_tokenizer(name, revision=config.revision, offline=config.offline)
    module = load_module(config, found, objective, weights=weights)
    if objective == "seq2seq":
        return _seq2seq(config, module, tasks=tasks, tokenizer=tokenizer)
    if objective == "classification":
        return _encoder(config, module, tasks=tasks, tokenizer=tokenizer)
    if config.freeze != "none":
        if config.freeze == "encoder":
            raise ModelError(
                "model.freeze = 'encoder' does not fit a causal model, which has none; use "
                "'embeddings', or [model.lora]"
            )
        module.get_input_embeddings().requires_grad_(False)
    if config.lora is not None:
        module = add_adapters(module, config.lora)
    return CausalModel(
        module,
        tasks=tasks,
        tokenizer=tokenizer,
        max_input_length=config.max_input_length,
        max_target_length=config.max_target_length,
    )


def _from_factory(config: ModelConfig, tasks: Sequence[TaskSpec]) -> FederatedModel:
    module_name, _, function_name = config.factory.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise ModelError(
            f"model.factory = {config.factory!r} cannot be found ({error}); the module must be "
            "importable in every tier's environment (install it, or set PYTHONPATH)"
        ) from error
    model = function(config, tuple(tasks))
    if not isinstance(model, FederatedModel):
        raise ModelError(
            f"model.factory = {config.factory!r} returned {type(model).__name__}, not a "
            "regionfed.models.base.FederatedModel; return an object of that class"
        )
    return model
