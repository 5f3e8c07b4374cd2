"""Text to text: an encoder-decoder that answers every task in words (Raffel et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regionfed.data.types import Row
from regionfed.models.base import RowwiseModel
from regionfed.models.decode import greedy
from regionfed.models.head import head_of
from regionfed.models.labels import check_target, labelled, split_kinds, task_of
from regionfed.models.padding import (
    IGNORED,
    PaddedRows,
    attention,
    causal,
    mask_of,
    pad,
    row_cross_entropy,
)
from regionfed.models.tokens import TextTokenizer
from regionfed.tasks.spec import TaskKind, TaskSpec

_EVERY_WORD = 1 << 16
"""Ids of a text from which words are no longer read; no shop query comes near."""

TEXT_KINDS = (TaskKind.CLASSIFICATION, TaskKind.TEXT, TaskKind.TAGGING)


def prompt(row: Row, task: TaskSpec) -> str:
    """The model's input: the task's prefix (its name where it has none) and the text."""
    return f"{task.prefix.strip() or task.name + ':'} {row.text}"


class Seq2SeqModel(RowwiseModel):
    """Any encoder-decoder of transformers, built by `models.build`.

    Classes and corrected texts are written out as text. Tags are one id each, with no end mark:
    the answer to a tagging row is as long as the row has tokens, and only tags can be chosen.
    Where the tokenizer has no ids for tags, they are written out as text too. With `aligned` the
    decoder reads the first id of each word where it answers with that word's tag; else it reads the
    tag before.
    """

    def __init__(
        self,
        module: Any,
        *,
        tasks: Sequence[TaskSpec],
        tokenizer: TextTokenizer,
        max_input_length: int,
        max_target_length: int,
        aligned: bool = False,
    ) -> None:
        """Raises `ModelError` for an image task."""
        split_kinds(
            tasks,
            allowed=TEXT_KINDS,
            model="a text-to-text model",
            fix="use model.kind = 'cnn' for images",
        )
        self.module = module
        self.head = head_of(module)
        self.tasks = {task.name: task for task in tasks}
        self.labels = labelled(tasks)
        self.tokenizer = tokenizer
        self.max_input_length = max_input_length
        self.max_target_length = max_target_length
        self.aligned = aligned
        self.start_id = int(module.config.decoder_start_token_id)
        self._tags: dict[str, tuple[int, ...]] = {}
        for task in tasks:
            ids = tokenizer.tag_ids(task.labels) if task.kind is TaskKind.TAGGING else None
            if ids is not None:
                self._tags[task.name] = ids
        # Which ids a row may answer with: row 0 is anything, then one row per tagging task.
        self._tag_tasks = list(self._tags)

    def _target(self, row: Row) -> list[int]:
        check_target(row, self.labels)
        tags = self._tags.get(row.task)
        if tags is None:
            return self.tokenizer.encode(row.target, limit=self.max_target_length)
        ids = dict(zip(self.tasks[row.task].labels, tags, strict=True))
        return [ids[tag] for tag in row.target.split()][: self.max_target_length]

    def _read(self, row: Row) -> list[int]:
        """What the decoder reads of a row in place of its own answer."""
        if not self.aligned or row.task not in self._tags:
            return []
        ids, first = self.tokenizer.encode_words(row.text.split(), limit=_EVERY_WORD)
        return [ids[place] for place in first][: self.max_target_length]

    def encode(self, rows: Sequence[Row]) -> PaddedRows:
        """Token ids of inputs and answers, padded to the longest row."""
        prompts = [prompt(row, task_of(row, self.tasks)) for row in rows]
        inputs, lengths = pad(
            [self.tokenizer.encode(text, limit=self.max_input_length) for text in prompts],
            value=self.tokenizer.pad_id,
        )
        labels, label_lengths = pad([self._target(row) for row in rows], value=IGNORED)
        read, read_lengths = pad([self._read(row) for row in rows], value=IGNORED)
        kind = [
            self._tag_tasks.index(row.task) + 1 if row.task in self._tags else 0 for row in rows
        ]
        bounded = [
            min(len(row.text.split()), self.max_target_length)
            if row.task in self._tags
            else self.max_target_length
            for row in rows
        ]
        return PaddedRows(
            tensors={
                "inputs": inputs,
                "mask": mask_of(inputs, lengths),
                "labels": labels,
                "read": read,
                "tagging": torch.tensor(kind, dtype=torch.int64),
                "answer_length": torch.tensor(bounded, dtype=torch.int64),
            },
            rows=rows,
            lengths={
                "inputs": lengths,
                "mask": lengths,
                "labels": label_lengths,
                "read": read_lengths,
            },
            fillers={"inputs": self.tokenizer.pad_id, "labels": IGNORED, "read": IGNORED},
        )

    def row_losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Mean cross-entropy over each row's answer, shape (rows,)."""
        labels = batch["labels"]
        rows, width = labels.shape
        shifted = torch.cat(
            [torch.full_like(labels[:, :1], self.start_id), labels[:, :-1].clamp(min=0)], dim=1
        )
        # A row that is read has as many ids to read as labels, so these are never the wider.
        read = functional.pad(batch["read"], (0, width - batch["read"].shape[1]), value=IGNORED)
        shifted = torch.where(read == IGNORED, shifted, read)
        hidden_later = causal(width, device=labels.device).expand(rows, 1, width, width)
        out = self.module(
            input_ids=batch["inputs"],
            attention_mask=attention(batch["mask"]),
            decoder_input_ids=shifted,
            decoder_attention_mask=hidden_later,
            use_cache=False,
        )
        return row_cross_entropy(out.logits, labels)

    def predict(self, batch: Mapping[str, Tensor]) -> list[str]:
        """Greedy answers; a tagging row gets exactly one tag per token."""
        ids = greedy(
            self.module,
            inputs=batch["inputs"],
            mask=attention(batch["mask"]),
            start_id=self.start_id,
            eos_id=self.tokenizer.eos_id,
            lengths=batch["answer_length"],
            read=batch["read"],
            kind=batch["tagging"],
            choices=[self._tags[name] for name in self._tag_tasks],
        )
        kinds = batch["tagging"].tolist()
        lengths = batch["answer_length"].tolist()
        return [
            self._answer(row, kind=kind, length=length)
            for row, kind, length in zip(ids.tolist(), kinds, lengths, strict=True)
        ]

    def _answer(self, ids: list[int], *, kind: int, length: int) -> str:
        if kind == 0:
            return self.tokenizer.decode(ids)
        name = self._tag_tasks[kind - 1]
        tag = dict(zip(self._tags[name], self.tasks[name].labels, strict=True))
        return " ".join(tag[id_] for id_ in ids[:length])
