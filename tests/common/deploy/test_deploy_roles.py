"""Roles: command lines, start-up that waits with a reason, health, registration, identity."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from regionfed.checks.result import CheckResult, Code, failed, passed
from regionfed.checks.target import Target
from regionfed.deploy import health, registration
from regionfed.deploy.commands import ROLES
from regionfed.deploy.identity import prepare_identity
from regionfed.deploy.registration import parse_nodes, register_nodes
from regionfed.deploy.role import ERRANDS, main
from regionfed.deploy.settings import Settings
from regionfed.deploy.start import await_ready, bind_to_addresses
from regionfed.errors import ConfigError, IdentityError, TransportError
from regionfed_coordinator.daemon.options import parse_options

SITE = {
    "REGIONFED_REGION": "north",
    "REGIONFED_CLIENT": "c00",
    "REGIONFED_FLEET": "north-superlink:9092",
    "REGIONFED_RUNTIME": "north-superlink:9091",
    "REGIONFED_BRIDGE": "north-coordinator:9095",
    "REGIONFED_STATE": "/state",
}


def argv(role: str, **changes: str) -> tuple[str, ...]:
    return ROLES[role](Settings.from_environment(SITE | changes)).argv


def value(words: tuple[str, ...], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_a_superlink_separates_its_apis_and_asks_nodes_for_keys() -> None:
    words = argv("superlink", REGIONFED_BIND_RUNTIME="10.1.0.2:9091")
    assert value(words, "--host") == "10.1.0.2"
    assert value(words, "--fleet-api-address") == "0.0.0.0:9092"
    assert value(words, "--isolation") == "process"
    assert value(words, "--database") == "/state/superlink.db"
    assert "--enable-supernode-auth" in words
    assert "--insecure" not in words
    assert "--insecure" in argv("superlink", REGIONFED_TLS="0")


def test_nodes_sign_in_with_their_key_and_say_who_they_are() -> None:
    client = argv("client", REGIONFED_PEER_CA="/public/north/ca.crt")
    assert value(client, "--node-config") == 'region="north" client="c00"'
    assert value(client, "--auth-supernode-private-key") == "/identity/node"
    assert value(client, "--root-certificates") == "/public/north/ca.crt"
    assert value(client, "--host") == "127.0.0.1"
    uplink = argv("uplink")
    assert value(uplink, "--node-config") == 'region="north" bridge="north-coordinator:9095"'


def test_the_daemons_options_are_ones_that_it_takes() -> None:
    options = parse_options(argv("coordinator")[1:], environ={})
    assert options.region == "north"
    assert options.bind == "0.0.0.0:9095"
    assert options.advertise == "north-coordinator:9095"
    assert options.superlink == "north-superlink:9091"
    assert options.tls is not None
    assert parse_options(argv("coordinator", REGIONFED_TLS="0")[1:], environ={}).tls is None


@pytest.mark.slow
@pytest.mark.parametrize("role", ["superlink", "superexec", "client"])
def test_flowers_own_parsers_take_every_flag(role: str) -> None:
    words = argv(role)
    offered = subprocess.run(
        [str(Path(sys.executable).parent / words[0]), "--help"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    ).stdout
    for word in words[1:]:
        if word.startswith("--"):
            assert word in offered, word


@pytest.mark.parametrize(
    ("role", "variable"),
    [
        ("superexec", "REGIONFED_RUNTIME"),
        ("coordinator", "REGIONFED_REGION"),
        ("uplink", "REGIONFED_BRIDGE"),
        ("client", "REGIONFED_CLIENT"),
        ("client", "REGIONFED_FLEET"),
    ],
)
def test_case_7_a_missing_address_or_name_is_named(role: str, variable: str) -> None:
    with pytest.raises(ConfigError, match=f"{variable} is not set, but the role '{role}'"):
        argv(role, **{variable: ""})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("REGIONFED_FLEET", "http://x"),
        ("REGIONFED_TLS", "maybe"),
        ("REGIONFED_START_DEADLINE", "soon"),
        ("REGIONFED_START_DEADLINE", "nan"),
    ],
)
def test_a_malformed_variable_is_named(variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        Settings.from_environment(SITE | {variable: text})


def test_case_3_a_name_to_bind_becomes_an_address_or_an_error() -> None:
    settings = Settings.from_environment(SITE | {"REGIONFED_BIND_RUNTIME": "localhost:9091"})
    assert bind_to_addresses(settings).bind_runtime.host in ("127.0.0.1", "::1")
    wrong = Settings.from_environment(SITE | {"REGIONFED_BIND_RUNTIME": "no-such.invalid:1"})
    with pytest.raises(TransportError, match=r"no-such\.invalid"):
        bind_to_addresses(wrong)


def test_case_3_a_start_waits_with_its_reason_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("regionfed.deploy.start.LOOK_AGAIN_SECONDS", 0.01)
    marker, seen = tmp_path / "problem", []

    def look(target: Target) -> Iterator[CheckResult]:
        seen.append(marker.read_text() if marker.exists() else "")
        down = failed("SuperLink", Code.ADDRESS_REFUSED, "host:1 refused", fix="start it")
        yield down if len(seen) < 4 else passed("SuperLink", "up")

    await_ready(Target(role="client"), deadline=10, look=look, problem_file=marker)
    assert seen[0] == ""
    assert "[address-refused] SuperLink: host:1 refused; start it" in seen[1]
    assert not marker.exists()
    assert len(caplog.records) == 1


def test_case_3_a_start_ends_at_its_deadline_with_the_documented_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regionfed.deploy.start.LOOK_AGAIN_SECONDS", 0.01)

    def look(target: Target) -> Iterator[CheckResult]:
        yield failed("node key", Code.NODE_KEY_UNKNOWN, "unknown", fix="register it")

    with pytest.raises(IdentityError, match="node-key-unknown"):
        await_ready(
            Target(role="client"), deadline=0.05, look=look, problem_file=tmp_path / "problem"
        )


def test_the_entry_point_ends_with_the_errors_code(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in list(os.environ):
        if name.startswith("REGIONFED_"):
            monkeypatch.delenv(name)
    assert main(["client"]) == ConfigError.exit_code
    assert "REGIONFED_REGION" in caplog.text
    assert main([]) == 2


def test_errands_exist() -> None:
    from regionfed.deploy.role import _errand

    assert all(callable(_errand(name)) for name in ERRANDS)


def test_health_asks_the_process_and_not_just_its_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PROBLEM_FILE", tmp_path / "problem")
    monkeypatch.setattr(health, "TIMEOUT_SECONDS", 0.3)
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    assert health.problem(f"grpc:127.0.0.1:{port}") == ""
    server.stop(None).wait()
    assert "does not answer" in health.problem(f"grpc:127.0.0.1:{port}")
    with socket.socket() as hung:
        hung.bind(("127.0.0.1", 0))
        hung.listen(8)
        for kind in ("grpc", "http", "tls"):
            assert "does not answer" in health.problem(f"{kind}:127.0.0.1:{hung.getsockname()[1]}")
    (tmp_path / "problem").write_text("cannot start yet: why")
    assert health.problem("grpc:127.0.0.1:1") == "cannot start yet: why"


def test_health_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PROBLEM_FILE", tmp_path / "problem")

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            del words

    server = http.server.HTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert health.problem(f"http:127.0.0.1:{server.server_port}/metrics") == ""
    assert "404" in health.problem(f"http:127.0.0.1:{server.server_port}/other")
    server.shutdown()
    server.server_close()


def test_the_health_script_runs_without_site_packages() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-I", health.__file__],
        env={"REGIONFED_HEALTH": "grpc:127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "127.0.0.1:1 does not answer" in done.stdout


class FakeControl:
    """Answers like a SuperLink that is away for the first two calls."""

    def __init__(self, known: list[str]) -> None:
        self.known, self.calls = known, 0
        self.keys: dict[str, bytes] = {}

    def nodes(self) -> list[registration.NodeFacts]:
        self.calls += 1
        if self.calls < 3:
            raise TransportError("cannot list nodes: away")
        return [
            registration.NodeFacts(n, name, "registered", self.keys.get(name, b""))
            for n, name in enumerate(self.known)
        ]

    def register_node(self, key: Path, name: str) -> int:
        self.known.append(name)
        self.keys[name] = key.read_bytes()
        return len(self.known)

    def unregister_node(self, node_id: int) -> None:
        del self.keys[self.known.pop(node_id)]

    def close(self) -> None:
        pass


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> FakeControl:
    fake = FakeControl([])
    monkeypatch.setattr(registration, "Control", lambda *a, **k: fake)
    monkeypatch.setattr(registration, "LOOK_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(registration, "read_public_key", Path.read_bytes)
    return fake


def test_registration_waits_adds_what_is_missing_and_names_absent_keys(
    tmp_path: Path, control: FakeControl
) -> None:
    for name in ("c00", "c01"):
        (tmp_path / f"{name}.pub").write_text(f"key of {name}")
    nodes = " ".join(f"north/{c}={tmp_path}/{c}.pub" for c in ("c00", "c01"))
    settings = Settings.from_environment(SITE | {"REGIONFED_IDENTITY": str(tmp_path)})
    register_nodes(settings, {"REGIONFED_NODES": nodes})
    assert control.known == ["north/c00", "north/c01"]
    register_nodes(settings, {"REGIONFED_NODES": nodes})
    assert control.known == ["north/c00", "north/c01"]
    with pytest.raises(IdentityError, match=r"north/c02 .*c02\.pub"):
        register_nodes(settings, {"REGIONFED_NODES": f"{nodes} north/c02={tmp_path}/c02.pub"})


def test_another_key_under_a_known_name_is_refused_until_it_is_asked_for(
    tmp_path: Path, control: FakeControl
) -> None:
    file = tmp_path / "c00.pub"
    file.write_text("first key")
    environ = {"REGIONFED_NODES": f"north/c00={file}"}
    settings = Settings.from_environment(SITE | {"REGIONFED_IDENTITY": str(tmp_path)})
    register_nodes(settings, environ)
    file.write_text("second key")
    with pytest.raises(IdentityError, match=r"REGIONFED_REPLACE=north/c00"):
        register_nodes(settings, environ)
    assert control.keys == {"north/c00": b"first key"}
    register_nodes(settings, environ | {"REGIONFED_REPLACE": "north/c00"})
    assert control.keys == {"north/c00": b"second key"}


def test_registration_gives_up_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "LOOK_AGAIN_SECONDS", 0.01)
    control = FakeControl([])
    control.calls = -(10**6)
    began = time.monotonic()
    with pytest.raises(TransportError, match=r"after 0\.1 s.*away"):
        registration.await_nodes(control, deadline=0.1)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("text", ["", "north", "north=", "=key"])
def test_a_malformed_list_of_nodes_is_shown(text: str) -> None:
    with pytest.raises(ConfigError, match="REGIONFED_NODES"):
        parse_nodes(text)


def test_identities_of_all_tiers_fit_together(tmp_path: Path) -> None:
    def prepare(site: str, **variables: str) -> None:
        environ = {
            "REGIONFED_IDENTITY": str(tmp_path / site / "identity"),
            "REGIONFED_AUTHORITY": str(tmp_path / site / "authority"),
            "REGIONFED_PUBLIC": str(tmp_path / "public"),
            **variables,
        }
        prepare_identity(Settings.from_environment(environ), environ)

    prepare("global", REGIONFED_TIER="global", REGIONFED_HOSTS="global-superlink")
    prepare(
        "north",
        REGIONFED_TIER="region",
        REGIONFED_REGION="north",
        REGIONFED_HOSTS="north-superlink north-coordinator",
    )
    prepare("c00", REGIONFED_TIER="client", REGIONFED_REGION="north", REGIONFED_CLIENT="c00")
    identity = tmp_path / "north" / "identity"
    assert {"ca.crt", "server.crt", "server.key", "bridge.crt", "bridge.key", "node"} <= {
        path.name for path in identity.iterdir()
    }
    assert (tmp_path / "public" / "north" / "clients" / "c00.pub").exists()
    with pytest.raises(ConfigError, match="REGIONFED_TIER"):
        prepare("x", REGIONFED_TIER="cloud")
    with pytest.raises(ConfigError, match="REGIONFED_CLIENT"):
        prepare("y", REGIONFED_TIER="client", REGIONFED_REGION="north")
