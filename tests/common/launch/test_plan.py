"""What a local federation consists of, and its ports."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from regionfed.errors import ConfigError, TransportError
from regionfed.launch.plan import FederationPlan, plan_processes
from regionfed.launch.ports import Ports
from regionfed.launch.watchdog import MARK, NAME


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FederationPlan:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    return plan_processes(
        {"north": ["c00", "c01"], "south": ["c00"]},
        ports=Ports("127.0.0.1", 0),
        folder=tmp_path / "processes",
        logs=tmp_path / "logs",
        states={"north": tmp_path / "n", "south": tmp_path / "s"},
        settings={"REGIONFED_CONFIG": "/f.toml"},
        mark="m",
    )


def test_all_processes_are_there_under_their_names(plan: FederationPlan) -> None:
    assert [spec.name for spec in plan.processes] == [
        *("global/superlink", "global/superexec"),
        *("north/superlink", "north/superexec", "north/daemon"),
        *("north/uplink", "north/c00", "north/c01"),
        *("south/superlink", "south/superexec", "south/daemon", "south/uplink", "south/c00"),
    ]
    assert set(plan.daemons) == {"north", "south"}
    assert set(plan.controls) == {"global", "north", "south"}


def test_superlinks_keep_their_state_and_come_first(plan: FederationPlan) -> None:
    for spec in plan.processes:
        if spec.name.endswith("superlink"):
            assert spec.stage == 0
            assert "--database" in spec.command
            assert spec.command[spec.command.index("--isolation") + 1] == "process"
        else:
            assert spec.stage == 1


def test_nodes_know_who_they_are_and_dial_their_own_tier(plan: FederationPlan) -> None:
    by_name = {spec.name: spec for spec in plan.processes}

    def after(name: str, flag: str) -> str:
        command = by_name[name].command
        return command[command.index(flag) + 1]

    assert after("north/c01", "--node-config") == 'region="north" client="c01"'
    assert f'bridge="{plan.daemons["south"]}"' in after("south/uplink", "--node-config")
    fleet = {
        tier: after(f"{tier}/superlink", "--fleet-api-address") for tier in ("global", "north")
    }
    assert after("north/uplink", "--superlink") == fleet["global"]
    assert after("north/c00", "--superlink") == fleet["north"]


def test_environments_are_separate_quiet_and_without_proxies(plan: FederationPlan) -> None:
    homes = {spec.environment["FLWR_HOME"] for spec in plan.processes}
    assert len(homes) == len(plan.processes)
    for spec in plan.processes:
        assert spec.environment["FLWR_TELEMETRY_ENABLED"] == "0"
        assert spec.environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
        assert spec.environment["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
        assert (spec.environment[MARK], spec.environment[NAME]) == ("m", spec.name)
        assert spec.environment["REGIONFED_CONFIG"] == "/f.toml"
        assert "HTTPS_PROXY" not in spec.environment


def test_free_ports_differ_and_counted_ones_count() -> None:
    free = Ports("127.0.0.1", 0)
    assert len({free.take("x") for _ in range(20)}) == 20


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TransportError, match=f"port {port} of 127.0.0.1, wanted for a SuperL"):
            Ports("127.0.0.1", port).take("a SuperLink")


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "example.org"])
def test_nothing_listens_without_tls_beyond_loopback(host: str) -> None:
    with pytest.raises(ConfigError, match="beyond loopback"):
        Ports(host, 0)
