"""A region joins a running federation from its own rendered files, with its own keys, and leaves.

Every site has a folder, a Compose project and keys of its own, as on separate hosts; all dial each
other through the ports that the hosts publish. Nobody else restarts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from harness.engine import ROOT
from harness.stack import SERVER_IMAGE, docker
from harness.table import Drill, Table
from harness.tally import Abort, Tally
from harness.watch import Watch

PREFIX = "regionfed-join"
SITES = {
    "global": "",
    "north": "global",
    "north-c00": "north",
    "east": "global",
    "east-c00": "east",
}
"""Every site, and the one whose SuperLink it dials."""
PORTS = {
    "REGIONFED_GLOBAL_PORT": "29392",
    "REGIONFED_NORTH_PORT": "29393",
    "REGIONFED_EAST_PORT": "29394",
}


class Site:
    """One site: a folder with its rendered file, the federation file, and what others gave it."""

    def __init__(self, name: str, rendered: Path, folder: Path, *, host: str) -> None:
        self.name, self.folder = name, folder
        uid = os.getuid() or 12345
        folder.mkdir()
        for path in (f"identity/{name}", f"authority/{name}", "public"):
            (folder / path).mkdir(parents=True)
            if os.getuid() == 0:
                os.chown(folder / path, uid, uid)
        shutil.copy(rendered / f"{name}.yml", folder)
        shutil.copy(rendered / "federation.toml", folder)
        hosts = {f"REGIONFED_{each}_HOST": host for each in ("GLOBAL", "NORTH", "EAST")}
        lines = {"REGIONFED_UID": str(uid), **hosts, **PORTS}
        (folder / ".env").write_text("".join(f"{k}={v}\n" for k, v in lines.items()))

    def compose(self, *words: str, deadline: float = 300.0, check: bool = True) -> str:
        """`docker compose WORDS` for this site; its output. Raises Abort when it fails."""
        project = f"{PREFIX}-{self.name}"
        done = subprocess.run(
            [*("docker", "compose", "-p", project, "-f", f"{self.name}.yml"), *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=deadline,
            check=False,
        )
        if check and done.returncode:
            raise Abort(f"{self.name}: compose {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def make_keys(self) -> None:
        """Make this site's keys, in its own folder."""
        self.compose("--profile", "setup", "run", "--rm", f"{self.name}-identity")

    def give(self, other: Site) -> None:
        """Hand this site's public files to another."""
        shutil.copytree(self.folder / "public", other.folder / "public", dirs_exist_ok=True)

    def started(self) -> dict[str, str]:
        """When each running container of this site was started."""
        names = self.compose("ps", "--format", "{{.Name}}").split()
        return {n: docker("inspect", "-f", "{{.State.StartedAt}}", n).strip() for n in names}


def join_drill(tally: Tally, table: Table, *, pace: float) -> None:
    """Start the global site and north; let east join, take part, and leave."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        sites = _sites(folder, pace)
        try:
            _drill(sites, tally, table, pace)
        finally:
            for site in sites.values():
                site.compose("down", "--volumes", "-t", "5", check=False)
            docker(
                *("run", "--rm", "--user", "0:0", "-v", f"{folder}:/all", "--entrypoint", "sh"),
                *(SERVER_IMAGE, "-c", "rm -rf /all/*"),
                check=False,
            )


def _sites(folder: Path, pace: float) -> dict[str, Site]:
    rendered = folder / "rendered"
    rendered.mkdir()
    rendered.chmod(0o777)
    text = (ROOT / "docker/drill.toml").read_text()
    text = text.replace('regions = ["north", "south"]', 'regions = ["north", "east"]')
    text = text.replace("clients_per_region = 2", "clients_per_region = 1")
    text = text.replace("rounds = 12", "rounds = 80")
    text += f"\n[server]\nround_deadline = {90 * pace:g}\njoin_deadline = {20 * pace:g}\n"
    text += f"\n[coordinator]\nround_deadline = {60 * pace:g}\n"
    (rendered / "federation.toml").write_text(text)
    render = ("regionfed", "compose", "render", "federation.toml", "--split", "--out", ".")
    docker(
        *("run", "--rm", "--network", "none", "-v", f"{rendered}:/rendered", "-w", "/rendered"),
        *(SERVER_IMAGE, *render),
        deadline=180,
    )
    gateway = "{{(index .IPAM.Config 0).Gateway}}"
    host = docker("network", "inspect", "bridge", "-f", gateway).strip()
    return {name: Site(name, rendered, folder / name, host=host) for name in SITES}


def _enter(sites: dict[str, Site], region: str) -> None:
    """Make the keys of a region and its client, exchange the public halves, and start both."""
    server, own, client = sites["global"], sites[region], sites[f"{region}-c00"]
    own.make_keys()
    client.make_keys()
    server.give(own)
    own.give(server)
    own.give(client)
    client.give(own)
    own.compose("up", "-d", deadline=600)
    client.compose("up", "-d", deadline=600)


def _drill(sites: dict[str, Site], tally: Tally, table: Table, pace: float) -> None:
    server = sites["global"]
    server.make_keys()
    tally.say("the global site and north start")
    server.compose("up", "-d", deadline=600)
    _enter(sites, "north")
    server.compose("run", "--rm", "global-register", check=False)
    watch = Watch(PREFIX, volume=f"{PREFIX}-global_runs")
    try:
        watch.done(1, deadline=900 * pace)
        first = watch.rounds()[1]
        tally.check(
            "a federation with a region that is not there yet trains without it, by name",
            first["answered"] == ["north"] and first["skipped"][0]["region"] == "east",
            first,
        )
        others = [server, sites["north"], sites["north-c00"]]
        before = [site.started() for site in others]
        tally.say("east joins")
        began = time.monotonic()
        _enter(sites, "east")
        server.compose("run", "--rm", "global-register")
        joined = _round(watch, "east answers", "east", answers=True, pace=pace)
        seconds = time.monotonic() - began
        same = [site.started() for site in others] == before
        table.add(Drill("join", "region east starts", "any", f"in round {joined}", None, seconds))
        tally.check(f"east joins within {seconds:.0f} s, nobody else restarts", same, before)
        tally.say("east leaves")
        began = time.monotonic()
        for name in ("east-c00", "east"):
            sites[name].compose("down", "-t", "5")
        left = _round(watch, "a round goes on without east", "east", answers=False, pace=pace)
        seconds = time.monotonic() - began
        same = [site.started() for site in others] == before
        record = watch.rounds()[left]
        table.add(
            Drill("leave", "region east stops", "any", f"round {left} without it", None, seconds)
        )
        tally.check(
            f"east leaves: round {left} has north only after {seconds:.0f} s, nobody restarts",
            same and record["answered"] == ["north"],
            record,
        )
    finally:
        watch.close()


def _round(watch: Watch, what: str, region: str, *, answers: bool, pace: float) -> int:
    after = max(watch.rounds())
    found: list[int] = []

    def there() -> bool:
        later = {n: r for n, r in watch.rounds().items() if n > after}
        found[:] = [n for n, r in later.items() if (region in r["answered"]) is answers]
        return bool(found)

    watch.until(what, there, deadline=900 * pace)
    return min(found)
