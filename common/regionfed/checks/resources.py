"""Room for the model: disk, memory, a writable folder, and free ports."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from pathlib import Path

from regionfed.checks.address import Address
from regionfed.checks.result import CheckResult, Code, failed, passed, skipped

MIB = 1024 * 1024
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def check_folder(folder: Path, *, what: str) -> CheckResult:
    """Whether this user can create files in `folder` (made if it is missing)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
    except OSError as error:
        return failed(
            what,
            Code.FOLDER_NOT_WRITABLE,
            f"UID {os.getuid()} cannot write in {folder} ({error.strerror})",
            fix="give the folder or volume to this user, or start with the UID that owns it",
        )
    return passed(what, f"{folder} is writable")


def check_disk(folder: Path, *, what: str, need: int) -> CheckResult:
    """Whether the file system of `folder` has `need` bytes left."""
    existing = next((place for place in (folder, *folder.parents) if place.exists()), None)
    if existing is None:
        return skipped(what, f"{folder} has no parent folder that exists")
    free = shutil.disk_usage(existing).free
    if free < need:
        return failed(
            what,
            Code.DISK_TOO_SMALL,
            f"{folder} has {free // MIB} MiB free, the run needs {need // MIB} MiB",
            fix="free space, take a larger volume, or lower run.keep_checkpoints",
        )
    return passed(what, f"{folder} has {free // MIB} MiB free of {need // MIB} MiB needed")


def check_memory(*, what: str, need: int) -> CheckResult:
    """Whether this process may use `need` bytes, by the machine's and the container's measure."""
    available = available_memory()
    if available is None:
        return skipped(what, "this system does not tell how much memory is available")
    if available < need:
        return failed(
            what,
            Code.MEMORY_TOO_SMALL,
            f"{available // MIB} MiB of memory available, the model needs {need // MIB} MiB here",
            fix="raise the container's memory limit, take a smaller model.preset, or train "
            "adapters only ([model.lora])",
        )
    return passed(what, f"{available // MIB} MiB of memory for {need // MIB} MiB needed")


def available_memory() -> int | None:
    """Bytes that are available: the least of the machine's free memory and the cgroup's limit."""
    found = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
    except OSError:
        return None
    for path in _CGROUP_LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return min(found, default=None)


def check_port(address: Address, *, what: str) -> CheckResult:
    """Whether this process can listen at `address`."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except socket.gaierror as error:
            return failed(
                what,
                Code.ADDRESS_UNRESOLVED,
                f"{address} is to be bound, but {address.host!r} does not resolve here "
                f"({error.strerror})",
                fix="bind an address of this host, or 0.0.0.0 for all of them",
            )
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                message = f"{address} is not an address of this host, so it cannot be bound"
                fix = (
                    "the address to bind and the one that peers dial may differ: bind 0.0.0.0 or "
                    "an address of this host"
                )
            elif error.errno == errno.EACCES:
                message = f"UID {os.getuid()} may not bind {address}"
                fix = "choose a port above 1023"
            else:
                message = f"{address} is taken by another process"
                fix = f"stop it (`ss -ltnp 'sport = :{address.port}'` names it), or choose a port"
            return failed(what, Code.PORT_TAKEN, message, fix=fix)
    return passed(what, f"{address} is free")
