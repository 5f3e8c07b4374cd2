"""The report stands alone, shows what there is, and nothing where there is nothing."""

from __future__ import annotations

import html.parser
import re
import shutil
import sys
from pathlib import Path

import pytest

from regionfed.config.load import load_config
from regionfed.errors import RegionFedError, StateError
from regionfed.report import write_report
from regionfed.run.folder import RunFolder
from regionfed.run.records import RoundRecord

sys.path.insert(0, str(Path(__file__).parent))
from synthetic_run import REGIONS, write_synthetic_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return write_synthetic_run(tmp_path_factory.mktemp("report") / "run")


@pytest.fixture(scope="module")
def page(finished: RunFolder) -> str:
    path = write_report(finished.path)
    assert path == finished.report_file
    return path.read_text(encoding="utf-8")


def headings(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_every_section_of_a_full_run_is_there(page: str) -> None:
    assert headings(page) == [
        "Result by region",
        "Convergence",
        "Regions by task",
        "What personalisation gains",
        "Strategies chosen",
        "Conflict and strength over the rounds",
        "Who disagrees with whom",
        "Skipped and left out",
        "Privacy: off",
        "Time and bytes",
        "Where it ran, and how",
    ]
    assert page.count("<svg") == 6


def test_it_needs_nothing_from_elsewhere(page: str) -> None:
    addresses = set(re.findall(r"(?:src|href|url)\s*[=(]\s*[\"']?([^\"')\s>]+)", page))
    assert all(address.startswith(("#", "data:image/png;")) for address in addresses)
    assert "<script" not in page
    assert "@import" not in page


def test_ids_do_not_collide_and_references_are_met(page: str) -> None:
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:href=\"|url\()#([^\")]+)", page)) <= set(ids)


def test_tags_are_closed(page: str) -> None:
    class Checker(html.parser.HTMLParser):
        void = frozenset({"meta"})

        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in self.void:
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    checker = Checker()
    checker.feed(page)
    assert checker.open == []


def test_plots_take_the_colour_of_the_page(page: str) -> None:
    assert "#010203" not in page
    assert "currentColor" in page
    assert "prefers-color-scheme: dark" in page


def test_figures_stand_in_words(page: str, finished: RunFolder) -> None:
    result = finished.read_result()
    assert result.worst_region is not None
    assert f"{result.worst_region.name} (worst)" in page
    assert "the search collapsed to its lower end" in page
    assert "0 (best found: 0.034)" in page
    assert "No differential privacy" in page
    assert "2 of 5 clients answered in 300 s" in page
    assert "the update is not finite" in page
    assert "19.2 GB" in page
    assert all(name in page for name in REGIONS)
    assert "[method.rho]" in page


def test_a_run_that_has_only_begun_shows_no_empty_plots(tmp_path: Path) -> None:
    config = load_config(None, environ={}, overrides={"run.name": "young", "privacy.mode": "off"})
    folder = RunFolder.create(config, out=tmp_path / "run")
    page = write_report(folder.path).read_text()
    assert headings(page) == ["Privacy: off", "Where it ran, and how"]
    assert "not ended" in page
    assert "<svg" not in page
    folder.metrics().append(RoundRecord(round=1, seconds=2.0, answered=("north",)))
    page = write_report(folder.path).read_text()
    assert headings(page) == ["Privacy: off", "Time and bytes", "Where it ran, and how"]
    assert "<svg" not in page


def test_a_failed_run_says_so_and_its_words_are_escaped(
    tmp_path: Path, finished: RunFolder
) -> None:
    shutil.copytree(finished.path, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    result = folder.read_result()
    folder.write_result(
        result.model_copy(update={"status": "failed", "reason": "no answer <b>at all</b>"})
    )
    page = write_report(folder.path).read_text()
    assert ">failed</span>" in page
    assert "no answer &lt;b&gt;at all&lt;/b&gt;" in page


def test_a_private_run_shows_its_ledgers(tmp_path: Path, finished: RunFolder) -> None:
    shutil.copytree(finished.path, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    result = folder.read_result()
    privacy = result.privacy.model_validate(
        {
            "mode": "client",
            "statement": "Client-level differential privacy.",
            "epsilon": 1.25,
            "delta": 1e-5,
            "budget": 2.0,
            "secure_aggregation": True,
            "regions": {"north": {"epsilon": 1.25, "releases": {"training": 5}}},
        }
    )
    folder.write_result(result.model_copy(update={"privacy": privacy}))
    page = write_report(folder.path).read_text()
    assert "The largest epsilon of a region is 1.25 at delta 1e-05, of a budget of 2." in page
    assert "5 x training" in page
    assert "secure aggregation" in page


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"no federation\.toml"):
        write_report(tmp_path)


def test_a_missing_package_is_named_with_its_extra(
    finished: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("regionfed.report.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(RegionFedError, match=r"regionfed\[report\]"):
        write_report(finished.path)
