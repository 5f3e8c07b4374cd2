"""Spelling rows: real Home Depot pairs, and real queries with learnt errors put in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regionfed.data.partition import Split, split_by_hash, stream
from regionfed.data.real.read import read_csv
from regionfed.data.real.typos import ErrorModel, read_typo_lists, word_pairs
from regionfed.data.sections import QueriesConfig

Pair = tuple[str, str]
"""(query as typed, query as it should be)."""

_VALIDATION_SHARE = 0.1


def spelling_pairs(
    folder: Path,
    config: QueriesConfig,
    *,
    clean_queries: Sequence[str],
    forbidden: frozenset[str],
    seed: int,
) -> dict[Split, list[Pair]]:
    """Spelling pairs by split.

    Held out are Home Depot pairs only. Training has the remaining pairs, right queries that stay
    as they are (`clean_share`), and `clean_queries` corrupted by an error model, up to
    `spell_train_rows`. The error model learns from the typo lists and the training pairs alone.
    `forbidden` are queries that are held out of any task and must not be trained on.
    """
    homedepot = _homedepot(folder / "homedepot_query_typos.csv", config)
    held = {right for split in ("validation", "test") for _, right in homedepot[split]} | forbidden
    real = [pair for pair in homedepot["train"] if pair[1] not in held]
    pool = list(dict.fromkeys(query for query in clean_queries if query not in held))
    rng = stream(seed, "spelling")
    order = rng.permutation(len(pool)).tolist()
    total = config.spell_train_rows
    clean = min(round(config.clean_share * total), len(pool))
    real = real[: total - clean]
    chosen = [(pool[index], pool[index]) for index in order[:clean]]
    typos = list(read_typo_lists(folder))
    typos += [words for noisy, right in real for words in word_pairs(noisy, right)]
    model = ErrorModel(typos)
    needed = total - clean - len(real)
    corrupted: list[Pair] = []
    for index in order[clean:]:
        if len(corrupted) >= needed:
            break
        typed = model.corrupt(pool[index], rng)
        if typed is not None and typed not in held:
            corrupted.append((typed, pool[index]))
    train = [*real, *chosen, *corrupted]
    mixed = [train[index] for index in rng.permutation(len(train)).tolist()]
    return {"train": mixed, "validation": homedepot["validation"], "test": homedepot["test"]}


def _homedepot(path: Path, config: QueriesConfig) -> dict[Split, list[Pair]]:
    """The clean pairs, split by the right query so that no right query is on two sides."""
    splits: dict[Split, list[Pair]] = {"train": [], "validation": [], "test": []}
    for row in read_csv(path, columns=("noisy_query", "corrected_query", "clean")):
        typed, right = (normal(row[name]) for name in ("noisy_query", "corrected_query"))
        if row["clean"] == "1" and typed and typed != right:
            split = split_by_hash(
                right, validation_share=_VALIDATION_SHARE, test_share=config.spell_test_share
            )
            splits[split].append((typed, right))
    return splits


def normal(query: str) -> str:
    """A query in lower case with single spaces."""
    return " ".join(query.lower().split())
