"""Text to text word by word: an encoder-decoder that reads words by their letters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regionfed.data.types import Row
from regionfed.errors import ModelError
from regionfed.models.base import RowwiseModel
from regionfed.models.head import head_of
from regionfed.models.labels import check_target, labelled, split_kinds, task_of
from regionfed.models.letters import NO_GROUP, LetterVectors, bags_of
from regionfed.models.padding import (
    IGNORED,
    PaddedRows,
    attention,
    causal,
    mask_of,
    pad,
    row_cross_entropy,
)
from regionfed.models.seq2seq import TEXT_KINDS
from regionfed.tasks.spec import TaskKind, TaskSpec

KEEP = 0
"""The answer that leaves a word as it is."""


class WordwiseT5(nn.Module):
    """T5's two stacks (Raffel et al. 2020) between vectors of words, tied at both ends.

    The score of an answer is the product of the last hidden state and the answer's own vector. A
    word that looks like an answer has a vector close to it, so correcting and keeping words need
    not be learnt from nothing.
    """

    barred: Tensor

    def __init__(self, core: Any, *, answers: Iterable[str], allowed: Tensor) -> None:
        """`core` is a `T5Model`, whose own embeddings are dropped.

        `allowed` (tasks, answers) bool says which answers a task may give.
        """
        super().__init__()
        core.set_input_embeddings(nn.Identity())
        self.core = core
        self.vectors = LetterVectors(core.config.d_model, listed=answers)
        lowest = torch.finfo(torch.float32).min
        barred = torch.zeros(allowed.shape).masked_fill(~allowed, lowest)
        self.register_buffer("barred", barred, persistent=False)

    def get_decoder(self) -> Any:
        """The decoder's stack."""
        return self.core.get_decoder()

    def forward(self, inputs: Tensor, mask: Tensor, read: Tensor, task: Tensor) -> Tensor:
        """Scores (rows, words read, answers).

        `inputs` and `read` are (rows, words, groups) int32, what the encoder and the decoder read;
        `mask` (rows, words) bool is True where `inputs` has a word; `task` is (rows,) int64.
        """
        rows, width = read.shape[:2]
        later = causal(width, device=read.device).expand(rows, 1, width, width)
        hidden = self.core(
            inputs_embeds=self.vectors(inputs),
            attention_mask=attention(mask),
            decoder_inputs_embeds=self.vectors(read),
            decoder_attention_mask=later,
            use_cache=False,
        ).last_hidden_state
        scale = 1 / math.sqrt(hidden.shape[-1])
        scores: Tensor = (hidden * scale) @ self.vectors.listed().T
        return scores + self.barred[task][:, None]


class WordwiseModel(RowwiseModel):
    """Every task as one answer for each word that the decoder reads, all in one pass.

    Classes: the decoder reads the task's mark and answers with a label. Tags: it reads the words
    of the text and answers each with its tag. Corrections: it reads the words and answers each with
    the right word or with 'keep' (edits of Malmi et al. 2019, "Encode, Tag, Realize"). Corrections
    that join or split words, or write a word that is not listed, cannot be given and are not learnt
    from; rows of such corrections are still scored.

    `answers` lists what may be answered, `spans` where a task's own answers are among them.
    """

    module: WordwiseT5

    def __init__(
        self,
        core: Any,
        *,
        tasks: Sequence[TaskSpec],
        words: Iterable[str],
        max_input_length: int,
        max_target_length: int,
    ) -> None:
        """`words` are what a corrected text may be made of, beside the words that are in it.

        Raises `ModelError` for an image task, and for corrections without any word to write.
        """
        split_kinds(
            tasks,
            allowed=TEXT_KINDS,
            model="a text-to-text model",
            fix="use model.kind = 'cnn' for images",
        )
        self.tasks = {task.name: task for task in tasks}
        self.labels = labelled(tasks)
        self.max_input_length = max_input_length
        self.max_target_length = max_target_length
        # Marks have a space within, as no word has.
        answers = ["< keep >", *dict.fromkeys(words)]
        self._word_id = {word: place for place, word in enumerate(answers) if place != KEEP}
        writing = [task.name for task in tasks if task.kind is TaskKind.TEXT]
        if writing and not self._word_id:
            raise ModelError(
                f"task {writing[0]!r} asks for text, which tokenizer = 'letters' puts together from "
                "public words, but the data source has none; name a file of words in "
                "[data.files] vocabulary, or choose another tokenizer"
            )
        self.spans: dict[str, tuple[int, int]] = {}
        for task in tasks:
            if task.kind is TaskKind.TEXT:
                self.spans[task.name] = (0, len(self._word_id) + 1)
                continue
            self.spans[task.name] = (len(answers), len(answers) + len(task.labels))
            answers += [f"{mark(task)} {label}" for label in task.labels]
        self.answers = tuple(answers)
        self._place = {name: place for place, name in enumerate(self.tasks)}
        allowed = torch.zeros(len(tasks), len(answers), dtype=torch.bool)
        for name, (first, end) in self.spans.items():
            allowed[self._place[name], first:end] = True
        self.module = WordwiseT5(core, answers=answers, allowed=allowed)
        self.head = head_of(self.module)

    def _read(self, row: Row) -> list[str]:
        task = self.tasks[row.task]
        return [mark(task)] if task.kind is TaskKind.CLASSIFICATION else row.text.split()

    def _target(self, row: Row) -> list[int]:
        check_target(row, self.labels)
        task = self.tasks[row.task]
        if task.kind is TaskKind.TEXT:
            return self._edits(row.text.split(), row.target.split())
        first = self.spans[row.task][0]
        if task.kind is TaskKind.TAGGING:
            return [first + task.labels.index(tag) for tag in row.target.split()]
        return [first + task.labels.index(row.target)] if row.target else []

    def _edits(self, typed: Sequence[str], right: Sequence[str]) -> list[int]:
        if len(typed) != len(right):
            return []
        return [
            self._word_id.get(now, KEEP if was == now else IGNORED)
            for was, now in zip(typed, right, strict=True)
        ]

    def _typed(self, row: Row) -> bytes:
        return row.text.encode() if self.tasks[row.task].kind is TaskKind.TEXT else b""

    def encode(self, rows: Sequence[Row]) -> PaddedRows:
        """Letter groups of the words to read, the answers, and texts that may be kept in part."""
        inputs, lengths = bags_of(
            [[mark(task_of(row, self.tasks)), *row.text.split()] for row in rows],
            limit=self.max_input_length,
        )
        read, read_lengths = bags_of(
            [self._read(row) for row in rows], limit=self.max_target_length
        )
        labels = torch.full(read.shape[:2], IGNORED, dtype=torch.int64)
        for place, row in enumerate(rows):
            target = self._target(row)[: int(read_lengths[place])]
            labels[place, : len(target)] = torch.tensor(target, dtype=torch.int64)
        typed, typed_lengths = pad([list(self._typed(row)) for row in rows], value=0)
        return PaddedRows(
            tensors={
                "inputs": inputs,
                "mask": mask_of(inputs, lengths),
                "read": read,
                "labels": labels,
                "task": torch.tensor([self._place[row.task] for row in rows], dtype=torch.int64),
                "answers": read_lengths,
                "typed": typed.to(torch.uint8),
                "typed_bytes": typed_lengths,
            },
            rows=rows,
            lengths={
                "inputs": lengths,
                "mask": lengths,
                "read": read_lengths,
                "labels": read_lengths,
                "typed": typed_lengths,
            },
            fillers={"inputs": NO_GROUP, "read": NO_GROUP, "labels": IGNORED},
        )

    def _scores(self, batch: Mapping[str, Tensor]) -> Tensor:
        scores: Tensor = self.module(batch["inputs"], batch["mask"], batch["read"], batch["task"])
        return scores

    def row_losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Mean cross-entropy over each row's answers, shape (rows,)."""
        return row_cross_entropy(self._scores(batch), batch["labels"])

    def predict(self, batch: Mapping[str, Tensor]) -> list[str]:
        """The likeliest answers; words beyond the longest answer are kept, and have no tag."""
        with torch.no_grad():
            chosen = self._scores(batch).argmax(-1).tolist()
        tasks = list(self.tasks.values())
        return [
            self._answer(tasks[task], ids[:number], bytes(typed[:length]).decode())
            for task, ids, number, typed, length in zip(
                batch["task"].tolist(),
                chosen,
                batch["answers"].tolist(),
                batch["typed"].tolist(),
                batch["typed_bytes"].tolist(),
                strict=True,
            )
        ]

    def _answer(self, task: TaskSpec, ids: Sequence[int], typed: str) -> str:
        if task.kind is not TaskKind.TEXT:
            first = self.spans[task.name][0]
            return " ".join(task.labels[id_ - first] for id_ in ids)
        words = typed.split()
        for place, id_ in enumerate(ids):
            if id_ != KEEP:
                words[place] = self.answers[id_]
        return " ".join(words)


def mark(task: TaskSpec) -> str:
    """The word that stands for a task, before its texts and in place of a class."""
    return f"< {task.name} >"
