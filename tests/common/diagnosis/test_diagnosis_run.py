"""The diagnosis through the tiers' own apps, small."""

import json

import numpy as np
import pytest

from regionfed.cli.main import run as command_line
from regionfed.config.federation import FederationConfig
from regionfed.diagnosis.page import write_page
from regionfed.diagnosis.report import DiagnosisReport
from regionfed.diagnosis.settings import DiagnosisSettings, group_count, require_diagnosable
from regionfed.engine.diagnose import diagnose_here
from regionfed.errors import ConfigError, DataError, PrivacyError, StateError
from regionfed.messages import GroupUpdates
from regionfed.method.diagnose import Finding
from regionfed.run.folder import RunFolder


def configure(*, regions=3, clients=4, seed=1, train=24, steps=4, model=None, **builtin):
    return FederationConfig.model_validate(
        {
            "run": {"seed": seed, "name": "small"},
            "privacy": {"mode": "off"},
            "data": {
                "regions": regions,
                "clients_per_region": clients,
                "tasks": ["intent", "ner"],
                "builtin": {
                    "train_queries": train,
                    "validation_queries": 2,
                    "test_queries": 2,
                    **builtin,
                },
            },
            "model": {"kind": "roberta", "preset": "tiny", **(model or {})},
            "training": {"learning_rate": 0.003, "steps": steps, "batch_size": 16},
        }
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    config = configure()
    folder = RunFolder.create(config, out=tmp_path_factory.mktemp("small") / "run")
    events = []
    report = diagnose_here(config, folder, DiagnosisSettings(warmup=1, rounds=2), events.append)
    return folder, report, events


def test_every_region_has_a_verdict_with_its_numbers(small):
    folder, report, _ = small
    assert [each.region for each in report.regions] == ["r00", "r01", "r02"]
    assert report.parameters > 10_000
    assert not report.left_out
    for each in report.regions:
        assert each.groups == 2
        assert each.clients == 4
        assert each.examples == 4 * 2 * 24
        assert each.conflict > 0
        assert each.floor > 0
        assert each.divergence > 0
        assert each.explanation.startswith(("aligned", "no conflict", "mild", "severe"))
        assert each.strategy in ("none", "residual")
    distances = np.asarray(report.matrix.distance)
    np.testing.assert_allclose(distances, distances.T)
    assert (np.diag(report.matrix.cosine) > 0.999).all()
    assert DiagnosisReport.read(folder.path) == report


def test_the_run_folder_keeps_no_region_state(small):
    folder, _, events = small
    phases = [event.phase for event in events if event.region is None]
    assert phases == ["start", "warm-up", "done", "measure", "done", "measure", "done"]
    assert not folder.checkpoints(1).rounds()
    assert not list(folder.regions.rglob("state*"))


def test_d_r_and_distances_agree(small):
    """d_r^2 summed over regions is half the mean of all squared pairwise distances."""
    _, report, _ = small
    distance = np.asarray(report.matrix.distance)
    count = len(report.regions)
    expected = np.sum(distance**2) / (2 * count)
    assert sum(each.conflict**2 for each in report.regions) == pytest.approx(expected, rel=1e-4)


def test_sketched_updates_give_nearly_the_same_figures(small, tmp_path, monkeypatch):
    _, exact, _ = small
    monkeypatch.setattr("regionfed_server.diagnose.SKETCH_ABOVE", 1000)
    monkeypatch.setattr("regionfed_server.diagnose.SKETCH_WIDTH", 8192)
    config = configure()
    folder = RunFolder.create(config, out=tmp_path / "run")
    report = diagnose_here(config, folder, DiagnosisSettings(warmup=1, rounds=2))
    assert report.sketched
    assert not exact.sketched
    assert report.bytes_moved < exact.bytes_moved
    for a, b in zip(report.regions, exact.regions, strict=True):
        assert a.conflict == pytest.approx(b.conflict, rel=0.05)
        assert a.floor == pytest.approx(b.floor, rel=0.05)


def test_the_page_stands_alone(small):
    folder, report, _ = small
    page = write_page(report, folder.path).read_text()
    assert page.count("<svg") == 3
    assert "http-equiv" not in page
    assert "<script" not in page
    for each in report.regions:
        assert each.region in page
    assert "noise floor" in page


def test_too_few_clients_are_said_to_show_nothing(small):
    _, report, _ = small
    if report.unseen:
        assert report.unseen[0] in report.blindness()
    blind = report.model_copy(
        update={
            "regions": tuple(
                each.model_copy(update={"finding": Finding.ALIGNED, "detectable_gap": None})
                for each in report.regions
            )
        }
    )
    blind = DiagnosisReport.model_validate_json(blind.model_dump_json())
    assert "decides nothing" in blind.summary()
    assert "more clients" in blind.blindness()
    assert len(report.losses) == 3
    falling = blind.model_copy(update={"losses": (2.0, 1.0, 1.0)})
    assert "fell by 50%" in falling.blindness()
    assert "fell by" not in blind.model_copy(update={"losses": (1.0, 1.0, 1.0)}).blindness()


def test_regions_of_one_client_are_left_out_or_refused(tmp_path):
    config = configure(regions=2, clients=1)
    folder = RunFolder.create(config, out=tmp_path / "run")
    with pytest.raises(DataError, match="single client shows no scatter"):
        diagnose_here(config, folder, DiagnosisSettings(warmup=0, rounds=1))


@pytest.mark.parametrize(
    ("privacy", "named"),
    [
        ({"mode": "client"}, "privacy.mode = 'client'"),
        ({"example_level": True}, "example_level"),
        ({"secure_aggregation": {"enabled": True}}, "secure_aggregation"),
    ],
)
def test_it_refuses_to_break_a_promise(privacy, named):
    config = configure().model_copy(
        update={
            "privacy": FederationConfig.model_validate(
                {"privacy": {"mode": "off", **privacy}}
            ).privacy
        }
    )
    with pytest.raises(PrivacyError, match=named):
        require_diagnosable(config)


def test_the_coordinator_refuses_by_itself(monkeypatch):
    """Whoever asks: a region that promised privacy answers no diagnosis."""
    from regionfed.messages import RegionOrder
    from regionfed_coordinator.diagnose import diagnose_region
    from regionfed_coordinator.region import Region

    config = FederationConfig.model_validate({"privacy": {"mode": "client"}})
    region = Region("r", config, None, None, None, ("c00", "c01"), 0.01)
    order = RegionOrder("run", 1, 1, "", "", np.zeros(3, np.float32))
    with pytest.raises(PrivacyError):
        diagnose_region(region, order)


def test_group_counts():
    assert [group_count(0, n) for n in (1, 2, 3, 4, 6, 10, 40)] == [1, 2, 2, 2, 3, 5, 5]
    assert group_count(8, 5) == 5
    assert group_count(1, 5) == 1
    with pytest.raises(ConfigError, match="--groups 1"):
        DiagnosisSettings.made(warmup=1, rounds=1, groups=1)
    with pytest.raises(ConfigError, match="--rounds 0"):
        DiagnosisSettings.made(warmup=1, rounds=0, groups=0)


def test_a_missing_or_damaged_record(tmp_path):
    with pytest.raises(StateError, match="has not ended"):
        DiagnosisReport.read(tmp_path)
    (tmp_path / "diagnosis.json").write_text("{}")
    with pytest.raises(StateError, match="damaged"):
        DiagnosisReport.read(tmp_path)


def test_messages_round_trip():
    sent = GroupUpdates("r", 3, groups=np.arange(4, dtype=np.float32), clients=(2.0, 1.0))
    got = GroupUpdates.from_record(sent.to_record())
    assert got.clients == (2.0, 1.0)
    np.testing.assert_array_equal(got.groups, sent.groups)


def test_the_command_prints_json_only(tmp_path, capsys):
    path = tmp_path / "federation.toml"
    path.write_text(
        "[data]\nregions = 2\nclients_per_region = 2\ntasks = ['intent']\n"
        "[data.builtin]\ntrain_queries = 8\nvalidation_queries = 1\ntest_queries = 1\n"
        "[model]\nkind = 'roberta'\npreset = 'tiny'\n[privacy]\nmode = 'off'\n[training]\nsteps = 1\n"
    )
    arguments = ["diagnose", str(path), "--rounds", "1", "--warmup", "0"]
    assert command_line([*arguments, "--json", "--out", str(tmp_path / "a")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["region"] for each in found["regions"]] == ["r00", "r01"]
    assert (tmp_path / "a" / "diagnosis.html").exists()
    assert command_line([*arguments, "--set", "privacy.mode=client"]) == PrivacyError.exit_code
    assert "budget would not know" in capsys.readouterr().err
