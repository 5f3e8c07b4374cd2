"""Configurations of small runs whose devices keep models."""

from regionfed.config.federation import FederationConfig

MODELS = {
    "t5": {"kind": "t5"},
    "letters": {"kind": "t5", "tokenizer": "letters"},
    "roberta": {"kind": "roberta"},
}


def device_config(kind: str, *, client: dict | None = None, rounds: int = 1, **sections):
    tasks = ["intent", "ner"] if kind == "roberta" else ["intent", "spell", "ner"]
    return FederationConfig.model_validate(
        {
            "run": {"rounds": rounds, "evaluate_every": 0},
            "privacy": {"mode": "off"},
            "data": {
                "regions": 2,
                "clients_per_region": 2,
                "tasks": tasks,
                "builtin": {"train_queries": 24, "validation_queries": 8, "test_queries": 4},
            },
            "model": {**MODELS[kind], "preset": "tiny"},
            "training": {"steps": 5, "learning_rate": 0.01},
            "client": {"user": {"enabled": True, "steps": 25, "learning_rate": 0.01}}
            if client is None
            else client,
            **sections,
        }
    )
