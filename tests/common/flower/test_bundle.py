"""Bundles hold their manifest only, agree with the distribution, and can be given what they need."""

from __future__ import annotations

import tomllib
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from regionfed.errors import RunFailed, StateError
from regionfed.flower.adapter import build_bundle
from regionfed.flower.bundle import GLOBAL, REGIONAL, bundle, manifest_path
from regionfed.version import __version__


@pytest.mark.parametrize(
    ("package", "keys"), [(GLOBAL, {"output", "engine"}), (REGIONAL, {"region", "bridge"})]
)
def test_a_bundle_is_its_manifest(package: str, keys: set[str]) -> None:
    made = bundle(package)
    assert len(made) < 10_000
    with zipfile.ZipFile(BytesIO(made)) as archive:
        assert set(archive.namelist()) == {"pyproject.toml", ".info/CONTENT"}
        manifest = tomllib.loads(archive.read("pyproject.toml").decode())
    assert manifest["project"]["version"] == __version__
    assert keys <= set(manifest["tool"]["flwr"]["app"]["config"])


def test_the_manifest_in_a_wheel_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(StateError, match="has no bundle manifest"):
        manifest_path("some_package")
    (tmp_path / "pyproject.toml").write_text("")
    assert manifest_path("some_package") == tmp_path / "pyproject.toml"
    (package / "bundle.toml").write_text("")
    assert manifest_path("some_package") == package / "bundle.toml"
    with pytest.raises(StateError, match="not_there is not installed"):
        manifest_path("not_there")


def test_a_manifest_that_flower_refuses_is_named() -> None:
    with pytest.raises(RunFailed, match="Flower refuses the app bundle"):
        build_bundle({"pyproject.toml": b'[project]\nname = "x"\n'})
