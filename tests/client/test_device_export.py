"""An exported folder answers in other programs as the device does."""

import itertools
import json
import zlib

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regionfed.config.federation import FederationConfig
from regionfed.data.types import Row
from regionfed.errors import ModelError
from regionfed.models.build import build_model
from regionfed.models.seq2seq import prompt
from regionfed.models.tokens import WordTokenizer
from regionfed.tasks.registry import characters_task
from regionfed_client.export import export_model
from regionfed_client.predict import Question, answer
from regionfed_client.programs import program_of, write_executorch, write_onnx
from regionfed_client.served import ServedModel, find_place
from regionfed_client.words_export import save_word_tokenizer

transformers = pytest.importorskip("transformers")


@pytest.fixture
def device(finished):
    def open_device(kind):
        return ServedModel.open(
            find_place(state=finished(kind), region="r01", client="c00", config=None)
        )

    return open_device


def test_the_word_tokenizer_keeps_its_ids(tmp_path):
    own = WordTokenizer(["spell:", "butter", "a", "buy", "é"])
    save_word_tokenizer(own, tmp_path)
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.is_fast
    assert len(loaded) == own.size
    for text in ("spell: butter   avlable a é", "", "x", "  buy\tbutter ", "naïve 東京 🙂 butter"):
        ids = own.encode(text, limit=64)
        assert loaded(text)["input_ids"] == ids
        assert loaded(text, truncation=True, max_length=4)["input_ids"] == own.encode(text, limit=4)
        assert loaded.decode(ids, skip_special_tokens=True) == own.decode(ids)


def test_transformers_gives_the_devices_answers(device, tmp_path):
    own = device("t5")
    export_model(own, tmp_path / "out", form="transformers")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    tasks = {task.name: task for task in own.bench.data.tasks}
    rows = [r for r in own.bench.data.load("r01", "c00").train if r.task != "ner"][:16]
    rows.append(Row("spell", "butter avlable", ""))
    expected = answer(own, [Question(row.task, row.text) for row in rows])
    assert sum(bool(text) for text in expected) > 8
    for row, wanted in zip(rows, expected, strict=True):
        inputs = tokenizer(prompt(row, tasks[row.task]), return_tensors="pt")
        ids = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            do_sample=False,
            num_beams=1,
            max_new_tokens=own.config.model.max_target_length,
        )
        assert tokenizer.decode(ids[0], skip_special_tokens=True) == wanted
    told = json.loads((tmp_path / "out" / "regionfed.json").read_text())
    assert [task["name"] for task in told["tasks"]] == list(tasks)
    assert len(told["tasks"][2]["tag_ids"]) == len(tasks["ner"].labels)


def test_an_encoder_with_its_heads_gives_the_devices_answers(device, tmp_path):
    own = device("roberta")
    export_model(own, tmp_path / "out", form="transformers")
    encoder = transformers.AutoModel.from_pretrained(
        tmp_path / "out", add_pooling_layer=False
    ).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    heads = load_file(tmp_path / "out" / "heads.safetensors")
    told = json.loads((tmp_path / "out" / "regionfed.json").read_text())
    labels = {task["name"]: task["labels"] for task in told["tasks"]}
    texts = [row.text for row in own.bench.data.load("r01", "c00").test if row.task == "intent"]
    expected = answer(own, [Question("intent", text) for text in texts])
    for text, wanted in zip(texts, expected, strict=True):
        inputs = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            hidden = encoder(**{k: inputs[k] for k in ("input_ids", "attention_mask")})
        pooled = hidden.last_hidden_state.mean(1)
        scores = pooled @ heads["intent.weight"].T + heads["intent.bias"]
        assert labels["intent"][int(scores.argmax())] == wanted


def build(kind, **model):
    config = FederationConfig.model_validate(
        {
            "model": {"kind": kind, "preset": "tiny", **model},
            "data": {"regions": 2, "clients_per_region": 2},
        }
    )
    from regionfed.data.open import open_data

    data = open_data(config.data, 1)
    tasks = [t for t in data.tasks if kind == "t5" or t.name != "spell"]
    if kind == "cnn":
        tasks = [characters_task()]
    built = build_model(config.model, tasks=tasks, vocabulary=data.vocabulary, seed=1)
    built.module.eval()
    return built, config


def other_inputs(program):
    """Inputs of other sizes than those that were traced."""
    generator = torch.Generator().manual_seed(0)
    made = {}
    for name, example in program.inputs.items():
        free = [4 if name in ("words", "read") else 7, *example.shape[2:]]
        shape = [5, *(example.shape[1:] if name == "images" else free[: example.dim() - 1])]
        made[name] = torch.randint(0, 4, shape, generator=generator).to(example.dtype)
        if example.dtype == torch.bool:
            made[name] = torch.ones(shape, dtype=torch.bool)
            made[name][1, 5:] = False
    return made


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("cnn", {}),
        ("cnn", {"cnn": "resnet"}),
        ("roberta", {}),
        ("t5", {}),
        ("t5", {"tokenizer": "letters"}),
    ],
)
def test_onnx_computes_what_the_module_computes(kind, model, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    built, config = build(kind, **model)
    write_onnx(built, config, tmp_path)
    program = program_of(built, config)
    inputs = other_inputs(program)
    wanted = program.module(**inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    found = runtime.InferenceSession(tmp_path / "model.onnx").run(
        None, {name: tensor.numpy() for name, tensor in inputs.items()}
    )
    assert len(found) == len(wanted)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b, atol=2e-5)


def test_letters_can_be_read_by_another_program(device, tmp_path):
    """From the exported files and the rule in docs/device.md alone."""
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    own = device("letters")
    with pytest.raises(ModelError, match="--format onnx"):
        export_model(own, tmp_path / "no", form="transformers")
    export_model(own, tmp_path / "out", form="onnx")
    told = json.loads((tmp_path / "out" / "regionfed.json").read_text())
    written = (tmp_path / "out" / "answers.txt").read_text().splitlines()
    session = runtime.InferenceSession(tmp_path / "out" / "model.onnx")

    def bags(words):
        out = np.full((1, len(words), told["letters"]["most"]), told["letters"]["filling"], "int32")
        for place, word in enumerate(words):
            around = f"<{word}>"
            groups = [f"={word}", *word, *map("".join, itertools.pairwise(around))]
            ids = [zlib.crc32(group.encode()) % told["letters"]["groups"] for group in groups]
            out[0, place, : len(ids)] = ids[: told["letters"]["most"]]
        return out

    rows = own.bench.data.load("r01", "c00").train[:24]
    expected = answer(own, [Question(row.task, row.text) for row in rows])
    for row, wanted in zip(rows, expected, strict=True):
        place, task = next(
            (place, task) for place, task in enumerate(told["tasks"]) if task["name"] == row.task
        )
        words = row.text.split()
        read = [task["mark"]] if task["kind"] == "classification" else words
        (scores,) = session.run(
            None,
            {
                "inputs": bags([task["mark"], *words]),
                "attention_mask": np.ones((1, len(words) + 1), bool),
                "read": bags(read),
                "task": np.array([place]),
            },
        )
        best = scores[0].argmax(-1).tolist()
        first, _ = task["answers"]
        if task["kind"] == "text":
            pairs = zip(words, best, strict=True)
            found = [word if id_ == 0 else written[id_] for word, id_ in pairs]
        else:
            found = [task["labels"][id_ - first] for id_ in best]
        assert " ".join(found) == wanted
    assert {row.task for row in rows} == {"intent", "spell", "ner"}


def test_missing_packages_and_forms_are_named(monkeypatch, tmp_path):
    built, config = build("cnn")
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    monkeypatch.setitem(__import__("sys").modules, "executorch", None)
    with pytest.raises(ModelError, match=r"regionfed\[export\]"):
        write_onnx(built, config, tmp_path)
    with pytest.raises(ModelError, match=r"regionfed\[executorch\]"):
        write_executorch(built, config, tmp_path)


@pytest.mark.parametrize("kind", ["cnn", "roberta", "t5"])
def test_executorch_computes_what_the_module_computes(kind, tmp_path):
    pytest.importorskip("executorch.exir")
    runtime = pytest.importorskip("executorch.runtime")
    built, config = build(kind)
    write_executorch(built, config, tmp_path)
    program = program_of(built, config, full=True)
    inputs = list(program.inputs.values())
    wanted = program.module(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    loaded = runtime.Runtime.get().load_program(tmp_path / "model.pte")
    found = loaded.load_method("forward").execute(inputs)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.numpy(), atol=2e-5)
