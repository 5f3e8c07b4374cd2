"""The identity of one site: everything that the global team, a region or a client makes for itself.

Three folders, because three audiences read them:

`authority`  the site's own certificate authority; only the machine that signs needs it
`identity`   keys and certificates of the site's processes; private to the site
`public`     what other sites need (authorities' certificates, public node keys, enrolments); in
             one shared place or carried by hand

Every site has its own authority, so no private key and no signing request has to cross a border:

    public/global/ca.crt                  regions verify the global SuperLink with it
    public/REGION/ca.crt                  clients verify their region's SuperLink with it
    public/REGION/uplink.pub              the global team registers it under the region's name
    public/REGION/clients/CLIENT.pub      the region registers it under the client's name
    public/REGION/clients/CLIENT.enrolment.json   the region's secure-aggregation directory

Each function keeps what exists, renews a certificate that is about to end, and returns what it
made or renewed, so it is safe to call at every start.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from regionfed.identity.authority import (
    Authority,
    Purpose,
    create_authority,
    load_authority,
    load_certificate,
)
from regionfed.identity.certificates import create_certificate, pair, renew_certificate
from regionfed.identity.devices import create_device, enrolment_path
from regionfed.identity.files import private_folder, read_file, write_file
from regionfed.identity.keys import check_node_name, create_node_key
from regionfed.identity.names import hosts_of

RENEW_BEFORE = dt.timedelta(days=30)
GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class SiteFolders:
    """The three folders of a site; see the module's description."""

    identity: Path
    authority: Path
    public: Path


def prepare_global(folders: SiteFolders, *, hosts: list[str]) -> list[str]:
    """Identity of the global tier: an authority and the SuperLink's certificate for `hosts`."""
    return _authority_and_server(folders, site=GLOBAL, hosts=hosts)


def prepare_region(folders: SiteFolders, *, region: str, hosts: list[str]) -> list[str]:
    """Identity of a region: authority, server certificate, bridge certificate, uplink node key.

    `hosts` are the names under which the region's SuperLink and its daemon are dialled.
    """
    check_node_name(region)
    made = _authority_and_server(folders, site=region, hosts=hosts)
    authority = load_authority(folders.authority)
    made += _certificate(authority, folders.identity, name="bridge", hosts=[], purpose="client")
    if not (folders.identity / "node").exists():
        create_node_key(folders.identity, name="node")
        made.append("node")
    _publish(folders.identity / "node.pub", folders.public / region / "uplink.pub", comment=region)
    return made


def prepare_client(folders: SiteFolders, *, region: str, client: str) -> list[str]:
    """Identity of one client: its node key, and its keys for secure aggregation."""
    check_node_name(region)
    check_node_name(client)
    private_folder(folders.identity)
    made: list[str] = []
    if not (folders.identity / "node").exists():
        create_node_key(folders.identity, name="node")
        made.append("node")
    device = folders.identity / "device.json"
    if not device.exists():
        create_device(device, name=client)
        made.append("device.json")
    target = folders.public / region / "clients"
    _publish(folders.identity / "node.pub", target / f"{client}.pub", comment=client)
    _publish(enrolment_path(device), target / f"{client}.enrolment.json")
    return made


def _authority_and_server(folders: SiteFolders, *, site: str, hosts: list[str]) -> list[str]:
    made: list[str] = []
    if (folders.authority / "ca.crt").exists():
        authority = load_authority(folders.authority)
    else:
        authority = create_authority(folders.authority, name=f"RegionFed {site}")
        made.append("ca.crt")
    private_folder(folders.identity)
    made += _certificate(authority, folders.identity, name="server", hosts=hosts, purpose="server")
    _publish(folders.authority / "ca.crt", folders.identity / "ca.crt")
    _publish(folders.authority / "ca.crt", folders.public / site / "ca.crt")
    return made


def _certificate(
    authority: Authority, folder: Path, *, name: str, hosts: list[str], purpose: Purpose
) -> list[str]:
    """Make, remake (other hosts or another authority) or renew (soon over) one certificate."""
    files = pair(folder, name)
    if files.certificate.exists():
        present = load_certificate(files.certificate)
        same_names = set(hosts_of(present.extensions)) == set(hosts)
        if same_names and present.issuer == authority.certificate.subject:
            if present.not_valid_after_utc - dt.datetime.now(dt.UTC) > RENEW_BEFORE:
                return []
            renew_certificate(authority, files.certificate)
            return [files.certificate.name]
    create_certificate(authority, folder, name=name, hosts=hosts, purpose=purpose, force=True)
    return [files.certificate.name]


def _publish(source: Path, target: Path, *, comment: str | None = None) -> None:
    """Copy a public file; `comment` replaces the last word of an OpenSSH public key."""
    content = read_file(source, what="public file")
    if comment is not None:
        content = b" ".join(content.split()[:2]) + b" " + comment.encode() + b"\n"
    if target.exists() and target.read_bytes() == content:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    write_file(target, content, private=False)
