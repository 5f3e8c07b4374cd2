"""The generator: known conflict, disjoint splits, every word listed, the same rows everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from pydantic import ValidationError

from regionfed.data.builtin.source import BuiltinData
from regionfed.data.config import DataConfig
from regionfed.data.open import open_data
from regionfed.errors import ConfigError, DataError

SMALL = {"train_queries": 40, "validation_queries": 8, "test_queries": 12}


def build(*, seed: int = 1, partition: dict | None = None, regions=4, clients=3, **builtin):
    config = DataConfig(
        regions=regions,
        clients_per_region=clients,
        partition=partition or {},
        builtin={**SMALL, "ambiguous_words": 16, **builtin},
    )
    return BuiltinData(config, seed=seed)


def everything(data: BuiltinData):
    return [data.load(region, client) for region in data.regions for client in data.clients(region)]


def meanings(data: BuiltinData, region: str, task: str) -> dict[str, Counter[str]]:
    """Observed answers of ambiguous words in one region."""
    words = set(
        data._lexicon.ambiguous_cues if task == "intent" else data._lexicon.ambiguous_entities
    )
    seen: dict[str, Counter[str]] = {}
    for client in data.clients(region):
        for row in data.load(region, client).train:
            if row.task != task:
                continue
            tokens = row.text.split()
            answers = row.target.split() if task == "ner" else [row.target] * len(tokens)
            for token, answer in zip(tokens, answers, strict=True):
                if token in words:
                    seen.setdefault(token, Counter())[answer] += 1
    return seen


def test_default_is_the_papers_size():
    data = open_data(DataConfig(), 1)
    assert len(data.regions) == 8
    assert all(len(data.clients(region)) == 10 for region in data.regions)
    share = data.load("r03", "c07")
    by_task = Counter(row.task for row in share.train)
    assert by_task == {"intent": 200, "spell": 200, "ner": 200}  # 16,000 over 80 clients
    assert Counter(row.task for row in share.test)["ner"] == 50  # 4,000 over 80 clients


def test_equal_seeds_give_equal_rows_and_others_do_not():
    assert everything(build(seed=3)) == everything(build(seed=3))
    assert build(seed=3).load("r00", "c00") != build(seed=4).load("r00", "c00")


def test_one_share_is_the_same_in_another_process_without_loading_the_others():
    code = (
        "from regionfed.data.config import DataConfig\n"
        "from regionfed.data.open import open_data\n"
        "rows = open_data(DataConfig(builtin={'train_queries': 5}), 9).load('r05', 'c02').train\n"
        "print('|'.join(f'{row.text}>{row.target}' for row in rows))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "77"},
    )
    rows = open_data(DataConfig(builtin={"train_queries": 5}), 9).load("r05", "c02").train
    assert other.stdout.strip() == "|".join(f"{row.text}>{row.target}" for row in rows)


def test_rows_have_the_form_their_task_promises():
    data = build(user_vocabulary=4)
    words = set(data.vocabulary())
    specs = {task.name: task for task in data.tasks}
    for share in everything(data):
        for row in [*share.train, *share.validation, *share.test]:
            tokens, answers = row.text.split(), row.target.split()
            assert 1 <= len(tokens) <= 6
            assert words.issuperset(tokens)
            assert words.issuperset(answers)
            if row.task == "intent":
                assert row.target in specs["intent"].labels
            else:
                assert len(answers) == len(tokens)
            if row.task == "ner":
                assert set(answers) <= set(specs["ner"].labels)


def test_no_held_out_query_of_anyone_is_trained_on_by_anyone():
    shares = everything(build())
    train = {(row.task, row.text) for share in shares for row in share.train}
    held = {(row.task, row.text) for share in shares for row in [*share.validation, *share.test]}
    assert train
    assert held
    assert not train & held


@pytest.mark.parametrize("task", ["intent", "ner"])
def test_a_word_has_one_meaning_inside_a_region_and_another_elsewhere(task):
    data = build(regions=2, clients=6, ambiguity=0.9)
    first, second = (meanings(data, region, task) for region in data.regions)
    common = set(first) & set(second)
    assert len(common) >= 10
    assert all(len(first[word]) == 1 and len(second[word]) == 1 for word in common)
    assert all(first[word] != second[word] and not first[word] & second[word] for word in common)


def test_a_misspelt_form_means_another_word_elsewhere():
    data = build(regions=2, clients=6, ambiguity=0.9)
    forms = {form for form, _ in data._lexicon.ambiguous_typos}
    fixes: dict[str, dict[str, set[str]]] = {region: {} for region in data.regions}
    for share in everything(data):
        for row in share.train:
            for typed, right in zip(row.text.split(), row.target.split(), strict=False):
                if row.task == "spell" and typed in forms:
                    fixes[share.region].setdefault(typed, set()).add(right)
    common = set(fixes["r00"]) & set(fixes["r01"])
    assert len(common) == 16
    assert all(len(fixes["r00"][form]) == 1 for form in common)
    assert all(fixes["r00"][form] != fixes["r01"][form] for form in common)


@pytest.mark.parametrize("conflict", [0.0, 0.25, 0.5, 1.0])
def test_conflict_is_the_share_of_words_that_differ(conflict):
    truth = build(regions=2, conflict=conflict).conflict_truth()
    assert truth[0, 1] == pytest.approx(conflict, abs=0.05)


def test_only_the_named_regions_conflict():
    truth = build(regions=4, conflicting_regions=["r02"]).conflict_truth()
    assert truth[0, 1] == truth[0, 3] == truth[1, 3] == 0
    assert truth[2, [0, 1, 3]] == pytest.approx([1, 1, 1])


def test_full_conflict_sets_every_pair_of_eight_regions_far_apart():
    truth = build(regions=8).conflict_truth()
    assert truth[~np.eye(8, dtype=bool)].min() > 0.7
    assert np.array_equal(truth, truth.T)


def test_in_every_region_ambiguous_words_cover_all_meanings_equally():
    data = build(regions=8, ambiguous_words=20, conflict=0.6)
    assert data._dialects.intents.shape == (8, 24)  # rounded up to whole blocks of 8 intents
    for row in data._dialects.intents:
        assert np.bincount(row, minlength=8).tolist() == [3] * 8


def test_iid_clients_share_meanings_and_distributions():
    data = build(regions=4, clients=2, iid=True, train_queries=400)
    assert data.conflict_truth().max() == 0
    for share in everything(data):
        counts = Counter(row.target for row in share.train if row.task == "intent")
        assert min(counts.values()) > 25  # 50 expected of each of 8 intents


def test_regional_bias_is_the_share_of_home_products():
    data = build(regions=8, clients=2, train_queries=400, ambiguity=0.0)
    home = {
        word
        for index, listed in enumerate(data._lexicon.products)
        if index % 8 == 3
        for word in listed
    }
    rows = [row for row in data.load("r03", "c00").train if row.task == "intent"]
    share = sum(bool(home & set(row.text.split())) for row in rows) / len(rows)
    assert share == pytest.approx(0.7, abs=0.07)


def test_user_words_mean_one_thing_to_a_client_and_another_to_the_next():
    data = build(clients=6, user_vocabulary=8, user_share=1.0, train_queries=120)
    words = set(data._lexicon.user_words)
    by_client = []
    for client in data.clients("r00"):
        seen: dict[str, set[str]] = {}
        for row in data.load("r00", client).train:
            for token in words.intersection(row.text.split()):
                if row.task == "intent":
                    seen.setdefault(token, set()).add(row.target)
        assert all(len(answers) == 1 for answers in seen.values())
        by_client.append({word: answers.pop() for word, answers in seen.items()})
    pairs = [(a[word], b[word]) for a in by_client for b in by_client for word in set(a) & set(b)]
    assert any(left != right for left, right in pairs)


def test_assignment_moves_dialects_between_regions():
    related = build(regions=4, clients=4)
    mixed = build(regions=4, clients=4, partition={"assignment": "adversarial"})
    assert mixed.load("r00", "c01").train == related.load("r01", "c01").train
    assert mixed.load("r00", "c00").train == related.load("r00", "c00").train


def test_vocabulary_lists_each_word_once_and_is_the_same_for_every_seed():
    words = list(build(seed=1).vocabulary())
    assert len(words) == len(set(words))
    assert words == list(build(seed=2).vocabulary())


def test_large_lexicon_has_no_word_twice():
    data = build(products_per_category=60, brands=900, misspellings=1500, ambiguous_words=64)
    words = list(data._lexicon.all_words())
    assert len(words) == len(set(words)) > 4000


def test_unknown_places_and_tasks_are_errors_that_list_what_exists():
    data = build()
    with pytest.raises(DataError, match=r"'mars' is no region of this data; there are r00, r01"):
        data.load("mars", "c00")
    with pytest.raises(DataError, match=r"'c99' is no client of region r01"):
        data.load("r01", "c99")
    with pytest.raises(
        ConfigError, match=r"\['poetry'\].*allowed are \['intent', 'ner', 'spell'\]"
    ):
        BuiltinData(DataConfig(tasks=["poetry"]), seed=1)
    with pytest.raises(ValidationError, match="conflicting_regions names \\['west'\\]"):
        DataConfig(regions=2, builtin={"conflicting_regions": ["west"]})
