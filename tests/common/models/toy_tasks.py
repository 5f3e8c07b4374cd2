"""Toy tasks that every architecture can learn in a few steps."""

from __future__ import annotations

from regionfed.tasks.spec import TaskKind, TaskSpec

INTENT = TaskSpec("intent", TaskKind.CLASSIFICATION, ("buy", "find help"), "intent:")
SPELL = TaskSpec("spell", TaskKind.TEXT, (), "spell:")
NER = TaskSpec("ner", TaskKind.TAGGING, ("O", "B-BRAND", "B-PRODUCT"), "ner:")
DIGIT = TaskSpec("digit", TaskKind.IMAGE, ("0", "1", "2", "3"))
