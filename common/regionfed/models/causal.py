"""Decoder-only language models: the answer continues the prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regionfed.data.types import Row
from regionfed.models.base import RowwiseModel
from regionfed.models.head import head_of
from regionfed.models.labels import check_target, labelled, split_kinds, task_of
from regionfed.models.padding import IGNORED, PaddedRows, mask_of, pad, row_cross_entropy
from regionfed.models.seq2seq import TEXT_KINDS, prompt
from regionfed.models.tokens import TextTokenizer
from regionfed.tasks.spec import TaskKind, TaskSpec

_ANSWER = " answer:"


class CausalModel(RowwiseModel):
    """Any causal language model of transformers; the loss counts the answer's tokens only."""

    def __init__(
        self,
        module: Any,
        *,
        tasks: Sequence[TaskSpec],
        tokenizer: TextTokenizer,
        max_input_length: int,
        max_target_length: int,
    ) -> None:
        """Raises `ModelError` for an image task."""
        split_kinds(
            tasks,
            allowed=TEXT_KINDS,
            model="a language model",
            fix="use model.kind = 'cnn' for images",
        )
        self.module = module
        self.head = head_of(module)
        self.tasks = {task.name: task for task in tasks}
        self.labels = labelled(tasks)
        self.tokenizer = tokenizer
        self.max_input_length = max_input_length
        self.max_target_length = max_target_length

    def encode(self, rows: Sequence[Row]) -> PaddedRows:
        """Prompt and answer in one sequence to learn from, and prompts padded left to answer."""
        sequences: list[list[int]] = []
        labels: list[list[int]] = []
        prompts: list[list[int]] = []
        words: list[int] = []
        for row in rows:
            task = task_of(row, self.tasks)
            check_target(row, self.labels)
            text = prompt(row, task) + _ANSWER
            asked = self.tokenizer.encode(text, limit=self.max_input_length)[:-1]
            answer = self.tokenizer.encode(" " + row.target, limit=self.max_target_length)
            prompts.append(asked)
            sequences.append(asked + answer)
            labels.append([IGNORED] * len(asked) + answer)
            words.append(len(row.text.split()) if task.kind is TaskKind.TAGGING else 0)
        inputs, lengths = pad(sequences, value=self.tokenizer.pad_id)
        targets, _ = pad(labels, value=IGNORED)
        turned, asked_lengths = pad([ids[::-1] for ids in prompts], value=self.tokenizer.pad_id)
        return PaddedRows(
            tensors={
                "inputs": inputs,
                "mask": mask_of(inputs, lengths),
                "labels": targets,
                "prompts_turned": turned,
                "prompts_turned_mask": mask_of(turned, asked_lengths),
                "words": torch.tensor(words, dtype=torch.int64),
            },
            rows=rows,
            lengths={
                "inputs": lengths,
                "mask": lengths,
                "labels": lengths,
                "prompts_turned": asked_lengths,
                "prompts_turned_mask": asked_lengths,
            },
            fillers={
                "inputs": self.tokenizer.pad_id,
                "labels": IGNORED,
                "prompts_turned": self.tokenizer.pad_id,
            },
        )

    def row_losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Mean cross-entropy over each row's answer, shape (rows,)."""
        mask = batch["mask"]
        width = mask.shape[1]
        # Padding lies to the right, so hiding later positions hides it from every real token.
        lowest = torch.finfo(torch.float32).min
        later = torch.full((width, width), lowest, device=mask.device).triu(1)
        out = self.module(
            input_ids=batch["inputs"],
            attention_mask=later.expand(mask.shape[0], 1, width, width),
            use_cache=False,
        )
        return row_cross_entropy(out.logits[:, :-1], batch["labels"][:, 1:])

    def predict(self, batch: Mapping[str, Tensor]) -> list[str]:
        """Greedy answers, at most `max_target_length` tokens; tags cut to the number of tokens."""
        prompts = batch["prompts_turned"].flip(1)
        module: Any = self.module
        ids = module.generate(
            input_ids=prompts,
            attention_mask=batch["prompts_turned_mask"].flip(1).long(),
            do_sample=False,
            num_beams=1,
            max_new_tokens=self.max_target_length,
            eos_token_id=self.tokenizer.eos_id,
            pad_token_id=self.tokenizer.pad_id,
        )[:, prompts.shape[1] :]
        answers = [self.tokenizer.decode(row) for row in ids.tolist()]
        return [
            " ".join(answer.split()[:words]) if words else answer
            for answer, words in zip(answers, batch["words"].tolist(), strict=True)
        ]
