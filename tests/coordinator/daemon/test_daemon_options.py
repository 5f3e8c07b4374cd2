"""Flags and environment of the daemon (cases 3 and 7; TLS beyond loopback)."""

from __future__ import annotations

from pathlib import Path

import pytest

from regionfed.errors import ConfigError
from regionfed_coordinator.daemon.options import parse_options

GIVEN = ["--region", "north", "--state-dir", "s", "--superlink", "127.0.0.1:9"]


def test_flags_win_over_the_environment() -> None:
    options = parse_options(
        ["--region", "north"],
        {
            "REGIONFED_REGION": "south",
            "REGIONFED_STATE_DIR": "/state",
            "REGIONFED_SUPERLINK": "superlink:9091",
            "REGIONFED_BIND": "127.0.0.1:7000",
        },
    )
    assert (options.region, options.state_dir) == ("north", Path("/state"))
    assert (options.bind, options.advertise) == ("127.0.0.1:7000", "127.0.0.1:7000")
    assert options.tls is None


def test_bind_and_advertised_address_are_separate() -> None:
    given = [*GIVEN, "--bind", "0.0.0.0:9095", "--insecure"]
    assert parse_options([*given, "--advertise", "daemon:9095"], {}).advertise == "daemon:9095"
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0:9095 is not an address that can be dialled"):
        parse_options(given, {})


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--region", "north"], r"--state-dir is missing.*REGIONFED_STATE_DIR"),
        ([*GIVEN, "--bind", "here"], "--bind here is not HOST:PORT"),
        ([*GIVEN, "--superlink", "x:99999"], "--superlink x:99999 is not HOST:PORT"),
        ([*GIVEN, "--bind", "10.0.0.1:9095"], "beyond loopback.*--cert"),
        ([*GIVEN, "--cert", "c.pem"], "needs --key, --ca"),
        ([*GIVEN, "--keep", "0"], "--keep 0"),
    ],
)
def test_what_does_not_fit_is_named(arguments: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_options(arguments, {})
