"""Encoders with heads: one classifier per classification task, one tagger per tagging task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regionfed.data.types import Row
from regionfed.models.base import RowwiseModel
from regionfed.models.labels import Heads, LabelSpace, split_kinds, task_of
from regionfed.models.padding import IGNORED, PaddedRows, attention, mask_of, pad, row_cross_entropy
from regionfed.models.tokens import TextTokenizer
from regionfed.tasks.spec import TaskKind, TaskSpec

_ENCODE_ROWS = 128


class HeadedEncoder(nn.Module):
    """A text encoder, and heads over its mean-pooled and its per-word features.

    A frozen encoder stays in evaluation mode, so that its features do not change.
    """

    def __init__(
        self,
        encoder: Any,
        *,
        width: int,
        classification: Sequence[TaskSpec],
        tagging: Sequence[TaskSpec],
        frozen: bool,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifiers = Heads(width, classification)
        self.taggers = Heads(width, tagging)
        self.frozen = frozen
        if frozen:
            self.encoder.requires_grad_(False)

    def train(self, mode: bool = True) -> HeadedEncoder:
        """Training mode, with a frozen encoder left in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self

    def features(self, inputs: Tensor, mask: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Mean-pooled (rows, width) features and those of each word's first piece.

        `words` is (rows, most words) int64, the position of each word's first piece.
        """
        hidden = self.encoder(input_ids=inputs, attention_mask=attention(mask)).last_hidden_state
        weight = mask.to(hidden.dtype)[:, :, None]
        pooled = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)
        places = words.clamp(min=0)[:, :, None].expand(-1, -1, hidden.shape[-1])
        return pooled.float(), hidden.gather(1, places).float()


class EncoderModel(RowwiseModel):
    """A `HeadedEncoder` behind the common interface.

    A batch may hold rows of all tasks: each row is scored by its own task's head. With a frozen
    encoder and `cache_features`, features are computed once in `encode` and training touches the
    heads alone.
    """

    head = ("classifiers.", "taggers.")
    module: HeadedEncoder

    def __init__(
        self,
        encoder: Any,
        *,
        width: int,
        tasks: Sequence[TaskSpec],
        tokenizer: TextTokenizer,
        max_input_length: int,
        frozen: bool,
        cache_features: bool,
    ) -> None:
        """Raises `ModelError` for a task that heads cannot answer."""
        split_kinds(
            tasks,
            allowed=(TaskKind.CLASSIFICATION, TaskKind.TAGGING),
            model="an encoder with heads",
            fix="use a text-to-text model (model.kind = 't5') or leave the task out",
        )
        self.tasks = {task.name: task for task in tasks}
        self.classes = LabelSpace([t for t in tasks if t.kind is TaskKind.CLASSIFICATION])
        self.tags = LabelSpace([t for t in tasks if t.kind is TaskKind.TAGGING])
        self.module = HeadedEncoder(
            encoder,
            width=width,
            classification=self.classes.tasks,
            tagging=self.tags.tasks,
            frozen=frozen,
        )
        self.tokenizer = tokenizer
        self.max_input_length = max_input_length
        self.cached = frozen and cache_features

    def encode(self, rows: Sequence[Row]) -> PaddedRows:
        """Token ids and labels, or the frozen encoder's features and labels."""
        ids: list[list[int]] = []
        words: list[list[int]] = []
        classes: list[int] = []
        tags: list[list[int]] = []
        for row in rows:
            task = task_of(row, self.tasks)
            row_ids, first = self.tokenizer.encode_words(
                row.text.split(), limit=self.max_input_length
            )
            ids.append(row_ids)
            if task.kind is TaskKind.CLASSIFICATION:
                words.append([])
                classes.append(self.classes.index(task.name, row.target))
                tags.append([])
            else:
                words.append(first)
                classes.append(IGNORED)
                answer = row.target.split()[: len(first)]
                tags.append([self.tags.index(task.name, tag) for tag in answer])
        inputs, lengths = pad(ids, value=self.tokenizer.pad_id)
        places, word_lengths = pad(words, value=IGNORED)
        labels = torch.full_like(places, IGNORED)
        given, _ = pad(tags, value=IGNORED)
        labels[:, : given.shape[1]] = given[:, : labels.shape[1]]
        tensors = {
            "inputs": inputs,
            "mask": mask_of(inputs, lengths),
            "words": places,
            "class": torch.tensor(classes, dtype=torch.int64),
            "tags": labels,
            "classes_allowed": self.classes.allowed(rows),
            "tags_allowed": self.tags.allowed(rows),
        }
        used = {"inputs": lengths, "mask": lengths, "words": word_lengths, "tags": word_lengths}
        fillers = {"inputs": self.tokenizer.pad_id, "words": IGNORED, "tags": IGNORED}
        encoded = PaddedRows(tensors=tensors, rows=rows, lengths=used, fillers=fillers)
        return self._with_features(encoded) if self.cached else encoded

    @torch.no_grad()
    def _with_features(self, encoded: PaddedRows) -> PaddedRows:
        device = next(self.module.parameters()).device
        self.module.encoder.eval()
        tensors = {k: v for k, v in encoded.tensors.items() if k not in ("inputs", "mask")}
        width = self.module.encoder.config.hidden_size
        pooled = torch.zeros(len(encoded), width)
        by_word = torch.zeros(len(encoded), tensors["words"].shape[1], width)
        # Rows of like length together, so that little is spent on padding.
        for index in torch.split(encoded.lengths["inputs"].argsort(stable=True), _ENCODE_ROWS):
            if not len(index):
                continue  # a client without rows of this split
            batch = encoded.batch(index, device)
            mean, each = self.module.features(batch["inputs"], batch["mask"], batch["words"])
            pooled[index] = mean.cpu()
            by_word[index, : each.shape[1]] = each.cpu()
        tensors["pooled"] = pooled
        used = {name: encoded.lengths[name] for name in ("words", "tags")}
        if self.tags.size:
            tensors["by_word"] = by_word
            used["by_word"] = encoded.lengths["words"]
        return PaddedRows(tensors=tensors, rows=encoded.rows, lengths=used, fillers=encoded.fillers)

    def _features(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        if "pooled" in batch:
            return batch["pooled"], batch.get("by_word")
        return self.module.features(batch["inputs"], batch["mask"], batch["words"])

    def _scores(self, batch: Mapping[str, Tensor]) -> tuple[Tensor | None, Tensor | None]:
        """Scores with the classes of other tasks pushed out of reach."""
        pooled, by_word = self._features(batch)
        classes = tags = None
        if self.classes.size:
            classes = _confine(self.module.classifiers(pooled), batch["classes_allowed"])
        if self.tags.size and by_word is not None:
            allowed = batch["tags_allowed"][:, None, :]
            tags = _confine(self.module.taggers(by_word), allowed)
        return classes, tags

    def row_losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy of each row's class, or its mean over the row's tags; shape (rows,)."""
        classes, tags = self._scores(batch)
        total = torch.zeros(batch["class"].shape, device=batch["class"].device)
        if classes is not None:
            total = total + row_cross_entropy(classes[:, None], batch["class"][:, None])
        if tags is not None:
            total = total + row_cross_entropy(tags, batch["tags"])
        return total

    def predict(self, batch: Mapping[str, Tensor]) -> list[str]:
        """A label's name, or one tag per word."""
        classes, tags = self._scores(batch)
        rows = len(batch["class"])
        best = classes.argmax(-1).tolist() if classes is not None else [0] * rows
        best_tags = tags.argmax(-1).tolist() if tags is not None else [[]] * rows
        is_class = batch["classes_allowed"].any(1).tolist() if self.classes.size else [False] * rows
        word_counts = (batch["words"] != IGNORED).sum(1).tolist()
        return [
            self.classes.names[best[row]]
            if is_class[row]
            else " ".join(self.tags.names[tag] for tag in best_tags[row][: word_counts[row]])
            for row in range(rows)
        ]


def _confine(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.float().masked_fill(~allowed, torch.finfo(torch.float32).min)
