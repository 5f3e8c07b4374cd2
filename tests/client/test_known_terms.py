"""A device remembers its terms, so that a step without data opens neither rows nor model."""

import subprocess
import sys
from pathlib import Path

from device_runs import device_config

from regionfed_client.runtime import ClientRuntime, Shared
from regionfed_client.terms import known_terms, region_terms


def masked(state: Path, **sections):
    privacy = {"mode": "off", "secure_aggregation": {"enabled": True}}
    return device_config(
        "roberta", client={"state": str(state)}, **{"privacy": privacy, **sections}
    )


def runtime(config) -> ClientRuntime:
    return ClientRuntime(Shared(config), "r00", "c00")


def test_terms_are_found_once_and_known_by_the_next_process(tmp_path):
    first = runtime(masked(tmp_path))
    found = known_terms(first)
    assert first.shared.opened
    again = runtime(masked(tmp_path))
    assert known_terms(again) == found
    assert not again.shared.opened
    assert region_terms(again) == found
    (kept,) = tmp_path.rglob("terms.json")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_terms_of_another_configuration_are_not_used(tmp_path):
    small = known_terms(runtime(masked(tmp_path)))
    other = runtime(masked(tmp_path, model={"kind": "roberta", "d_model": 16, "heads": 2}))
    assert known_terms(other).dimension != small.dimension
    assert other.shared.opened


def test_a_damaged_file_is_found_anew(tmp_path):
    config = masked(tmp_path)
    found = known_terms(runtime(config))
    (kept,) = tmp_path.rglob("terms.json")
    kept.write_bytes(b"{")
    assert known_terms(runtime(config)) == found


def test_the_app_starts_without_the_training_stack():
    code = "import sys, regionfed_client.client_app; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
