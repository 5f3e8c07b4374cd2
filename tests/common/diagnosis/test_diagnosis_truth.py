"""Verdicts against data whose truth is known; several seeds, hence slow."""

import pytest

from regionfed.config.federation import FederationConfig
from regionfed.diagnosis.settings import DiagnosisSettings
from regionfed.engine.diagnose import diagnose_here
from regionfed.method.diagnose import Finding
from regionfed.run.folder import RunFolder

ODD = ("r01", "r04")
MODELS = {
    "roberta": {"preset": "tiny", "tasks": ["intent", "ner"], "steps": 10},
    "t5": {"preset": "small", "tasks": ["intent"], "steps": 12},
}


def verdicts(folder, *, seed, kind, **builtin):
    chosen = MODELS[kind]
    config = FederationConfig.model_validate(
        {
            "run": {"seed": seed},
            "privacy": {"mode": "off"},
            "data": {
                "regions": 6,
                "clients_per_region": 8,
                "tasks": chosen["tasks"],
                "builtin": {
                    "train_queries": 80,
                    "validation_queries": 2,
                    "test_queries": 2,
                    **builtin,
                },
            },
            "model": {"kind": kind, "preset": chosen["preset"]},
            "training": {"learning_rate": 0.003, "steps": chosen["steps"], "batch_size": 16},
        }
    )
    report = diagnose_here(config, RunFolder.create(config, out=folder), DiagnosisSettings())
    for each in report.regions:
        print(kind, seed, each.region, each.finding.value, each.relative_gap, each.p_value)
    return {each.region: (each.finding, each.strategy) for each in report.regions}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(1, 6))
def test_conflicting_regions_are_told_from_aligned_ones(tmp_path, seed):
    found = verdicts(tmp_path / "run", seed=seed, kind="roberta", conflicting_regions=list(ODD))
    for region, (finding, strategy) in found.items():
        assert (finding is not Finding.ALIGNED) == (region in ODD), (region, finding)
        assert strategy == ("residual" if region in ODD else "none")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(1, 6))
def test_an_iid_split_is_aligned(tmp_path, seed):
    found = verdicts(tmp_path / "run", seed=seed, kind="roberta", iid=True)
    assert {finding for finding, _ in found.values()} == {Finding.ALIGNED}
    assert {strategy for _, strategy in found.values()} == {"none"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_same_with_an_encoder_decoder(tmp_path):
    found = verdicts(tmp_path / "a", seed=1, kind="t5", conflicting_regions=list(ODD))
    assert {r for r, (finding, _) in found.items() if finding is not Finding.ALIGNED} == set(ODD)
