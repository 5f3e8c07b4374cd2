"""The checks that need no model: own files, clock, ports, and every peer that is dialled.

Light to import, because every process runs them at its start.
"""

from __future__ import annotations

from collections.abc import Iterator

from regionfed.bridge.client import BridgeTls
from regionfed.checks.bridge import check_daemon
from regionfed.checks.identity import (
    check_certificate_file,
    check_clock_against,
    check_key_mode,
    check_key_pair,
    check_owner,
)
from regionfed.checks.node import check_node_key
from regionfed.checks.resources import check_folder, check_port
from regionfed.checks.result import CheckResult
from regionfed.checks.target import Peer, Target
from regionfed.checks.transport import check_plain, check_tls

TIMEOUT_SECONDS = 5.0


def static_checks(target: Target) -> Iterator[CheckResult]:
    """What can be known without a peer: own files, clock, ports, folder."""
    if target.served is not None:
        served = target.served
        yield check_certificate_file(
            served.certificate, what="server certificate", hosts=served.hosts
        )
        yield check_key_pair(served.certificate, served.key, what="server key")
    for key in target.extra_keys:
        yield check_key_mode(key, what=f"key {key.name}")
    if target.device is not None:
        yield check_owner(target.device, client=target.client, what="owner of the identity")
    for ca in dict.fromkeys(peer.ca for peer in target.peers if peer.ca is not None):
        yield check_certificate_file(ca, what=f"authority {ca}")
        yield check_clock_against(ca, what="clock")
    if target.folder is not None:
        yield check_folder(target.folder, what="state folder")
    for what, address in target.binds:
        yield check_port(address, what=what)


def peer_checks(peer: Peer, *, timeout: float = TIMEOUT_SECONDS) -> Iterator[CheckResult]:
    """What can be known of one peer; stops at the first finding that hides the next ones."""
    if peer.ca is None:
        transport = check_plain(peer.address, what=peer.what, timeout=timeout)
    else:
        transport = check_tls(
            peer.address,
            what=peer.what,
            ca=peer.ca,
            certificate=peer.certificate,
            key=peer.key,
            timeout=timeout,
        )
    yield transport
    if transport.failed:
        return
    if peer.kind == "fleet" and peer.node_key is not None and peer.ca is not None:
        yield check_node_key(
            peer.address,
            what="node key and clock",
            ca=peer.ca,
            node_key=peer.node_key,
            timeout=timeout,
        )
    if peer.kind == "bridge":
        tls = None
        if peer.ca is not None and peer.certificate is not None and peer.key is not None:
            tls = BridgeTls(peer.ca, peer.certificate, peer.key)
        yield check_daemon(peer.address, what="daemon", tls=tls, timeout=timeout)
