"""Case 36: metrics of each tier over TCP, and a dashboard that asks for nothing else."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from regionfed.bridge.api import BridgeStatus
from regionfed.config.load import load_config
from regionfed.deploy.exporter import registry_of
from regionfed.deploy.metrics import (
    METRICS,
    PREFIX,
    ContainerCollector,
    ProgressCollector,
    RegionCollector,
    RunCollector,
)
from regionfed.deploy.settings import Settings
from regionfed.errors import TransportError
from regionfed.run.folder import RunFolder
from regionfed.run.records import (
    HopBytes,
    LeftOutClient,
    PrivacyRecord,
    RegionRound,
    RoundRecord,
    SkippedRegion,
    Traffic,
)

ROOT = Path(__file__).parents[3]
BOARD = ROOT / "deploy" / "grafana" / "regionfed.json"


def samples(*collectors: object) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return {
        (sample.name.removeprefix(PREFIX), *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def a_round(number: int, **changes: object) -> RoundRecord:
    return RoundRecord(
        round=number,
        seconds=2.0 * number,
        phases={"train": 1.5},
        traffic=Traffic(server_coordinator=HopBytes(up=10, down=20)),
        answered=("north", "south"),
        regions={"north": RegionRound(conflict=0.5, alpha=0.25, clients=2, loss=1.0)},
        **changes,
    )


def test_the_run_is_read_from_its_folder(tmp_path: Path) -> None:
    assert samples(RunCollector(tmp_path / "none")) == {}
    config = load_config(None, environ={}, overrides={"run.rounds": 3})
    folder = RunFolder.create(config, out=tmp_path / "run")
    log = folder.metrics()
    log.append(a_round(1, skipped=(SkippedRegion(region="west", reason="quorum"),)))
    log.append(a_round(2, left_out=(LeftOutClient(region="north", client="c01", reason="late"),)))
    for epsilon in (0.5, 0.75):
        log.append(
            PrivacyRecord(
                round=1,
                region="north",
                release="training",
                noise_multiplier=1.0,
                clipping_norm=1.0,
                epsilon=epsilon,
                delta=1e-5,
            )
        )
    found = samples(RunCollector(folder.path))
    assert found[("round",)] == 2
    assert found[("rounds_planned",)] == 3
    assert found[("round_seconds",)] == 4.0
    assert found[("phase_seconds", "train")] == 1.5
    assert found[("bytes_total", "server_coordinator", "down")] == 40
    assert found[("region_skipped_rounds", "west")] == 1
    assert found[("region_left_out_answers", "north")] == 1
    assert found[("region_conflict", "north")] == 0.5
    assert found[("region_alpha", "north")] == 0.25
    assert found[("region_epsilon", "north")] == 0.75
    assert found[("last_progress_timestamp_seconds",)] > 0
    assert ("run_failed",) not in found


def status() -> BridgeStatus:
    return BridgeStatus(
        region="north",
        version="0.1.0",
        flwr_version="1.39.0",
        protocol=1,
        jobs={"a:1:train": "done", "a:2:train": "leased"},
        worker_id="w",
        worker_age_s=2.5,
        nodes_online=2,
        progress={"round": 2, "phase": "train", "epsilon": 0.5},
        progress_age_s=-1.0,
        run="7",
        run_status="running",
    )


def test_a_region_shows_its_desk_and_whether_it_answers() -> None:
    found = samples(RegionCollector(status))
    assert found[("coordinator_up",)] == 1
    assert found[("clients_online",)] == 2
    assert found[("jobs", "leased")] == 1
    assert found[("jobs", "queued")] == 0
    assert found[("coordinator_round",)] == 2
    assert found[("worker_age_seconds",)] == 2.5
    assert found[("region_epsilon", "north")] == 0.5
    assert ("progress_age_seconds",) not in found

    def away() -> BridgeStatus:
        raise TransportError("away")

    assert samples(RegionCollector(away)) == {("coordinator_up",): 0}


def test_a_container_and_a_client_show_life_but_no_data(tmp_path: Path) -> None:
    found = samples(ContainerCollector())
    assert found[("processes",)] >= 1
    assert found[("memory_bytes",)] > 1e6
    assert samples(ProgressCollector(tmp_path)) == {}
    (tmp_path / "theta").write_bytes(b"x")
    progress = samples(ProgressCollector(tmp_path))
    assert set(progress) == {("last_progress_timestamp_seconds",)}


@pytest.mark.parametrize(
    ("role", "tier", "expected"),
    [
        ("superexec", "global", "regionfed_processes"),
        ("coordinator", "region", "regionfed_coordinator_up 0"),
        ("client", "client", "regionfed_memory_bytes"),
    ],
)
def test_case_36_metrics_are_scraped_over_tcp(
    tmp_path: Path, role: str, tier: str, expected: str
) -> None:
    environ = {
        "REGIONFED_TIER": tier,
        "REGIONFED_TLS": "0",
        "REGIONFED_BRIDGE": "127.0.0.1:1",
        "REGIONFED_STATE": str(tmp_path),
        "REGIONFED_RUN_DIR": str(tmp_path),
    }
    registry = registry_of(role, Settings.from_environment(environ), environ)
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{server.server_port}/metrics", timeout=20
        ) as answer:
            assert expected in answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def test_the_dashboard_asks_for_every_metric_and_no_other() -> None:
    board = json.loads(BOARD.read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"regionfed_\w+", target["expr"])
    }
    assert asked == {PREFIX + name for name in METRICS}


def test_the_dashboards_panels_do_not_overlap() -> None:
    board = json.loads(BOARD.read_text())
    cells = [
        (x, y)
        for panel in board["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
