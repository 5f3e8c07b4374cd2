"""What a container can reach and what it may do."""

from __future__ import annotations

import json

from harness.stack import Stack
from harness.tally import Tally

PORTS = {9091: "Runtime and Control", 9094: "node's Runtime", 9095: "bridge", 9099: "health"}
FLEET = 9092
PROCESSES = ("superlink", "superexec", "coordinator", "uplink")

_TRY = """
import json, socket, sys
reached = []
for host, port in json.loads(sys.argv[1]):
    try:
        socket.create_connection((host, port), timeout=1).close()
        reached.append([host, port])
    except OSError:
        pass
print(json.dumps(reached))
"""


def addresses(stack: Stack) -> dict[str, str]:
    """Every address of every process of the tiers: IP to `service (network)`."""
    found = {}
    for service in stack.services():
        if not service.endswith(PROCESSES):
            continue
        networks = stack.inspect(service)["NetworkSettings"]["Networks"]
        for name, facts in networks.items():
            found[facts["IPAddress"]] = f"{service} ({name.removeprefix(stack.project + '_')})"
    return found


def check_isolation(stack: Stack, tally: Tally, *, client: str, region: str) -> None:
    """A client reaches its region's Fleet API, and no control or runtime port of any tier."""
    known = addresses(stack)
    tries = [[ip, port] for ip in known for port in (*PORTS, FLEET)]
    done = stack.compose(
        "exec", "-T", client, "python", "-c", _TRY, json.dumps(tries), deadline=300
    )
    reached = {(ip, port) for ip, port in json.loads(done.stdout)}
    fleets = {known[ip] for ip, port in reached if port == FLEET}
    tally.check(
        f"{client} reaches the Fleet API of its region and of no other tier",
        fleets == {f"{region}-superlink ({region}-fleet)"},
        fleets,
    )
    open_ports = [f"{PORTS[port]} of {known[ip]}" for ip, port in reached if port in PORTS]
    tally.check(
        f"control and runtime ports of every tier are unreachable from {client} "
        f"({len(tries)} addresses tried)",
        not open_ports,
        open_ports,
    )


def check_confinement(stack: Stack, tally: Tally, *, uid: str) -> None:
    """Every process runs as `uid`, with a read-only root, without capabilities (case 1)."""
    wrong = []
    services = stack.services()
    for service in services:
        host = stack.inspect(service)["HostConfig"]
        if not host["ReadonlyRootfs"] or host["CapDrop"] != ["ALL"]:
            wrong.append(f"{service}: root {host['ReadonlyRootfs']}, dropped {host['CapDrop']}")
    tally.check(f"case 1: {len(services)} containers have a read-only root", not wrong, wrong)
    code = "import os; print(os.getuid()); open('/etc/probe', 'w')"
    for service in ("global-superlink", "north-coordinator", "north-c00"):
        done = stack.compose("exec", "-T", service, "python", "-c", code, check=False)
        tally.check(
            f"case 1: {service} runs as UID {uid} and cannot write its root",
            done.stdout.strip() == uid and "Read-only file system" in done.stderr,
            done.stdout + done.stderr,
        )
