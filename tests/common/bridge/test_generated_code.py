"""The checked-in protobuf code is what `bridge.proto` gives (`make proto` regenerates it)."""

from __future__ import annotations

from pathlib import Path

import pytest

import regionfed.bridge as package

pytest.importorskip("grpc_tools")


def test_the_generated_code_has_not_drifted(tmp_path: Path) -> None:
    from regionfed.bridge.generate import generate

    checked_in = Path(package.__file__).parent
    fresh = generate(tmp_path)
    assert {path.name for path in fresh} == {
        "bridge_pb2.py",
        "bridge_pb2.pyi",
        "bridge_pb2_grpc.py",
    }
    for path in fresh:
        assert path.read_text() == (checked_in / path.name).read_text(), (
            f"{path.name} differs: run python -m regionfed.bridge.generate"
        )
