"""Where a process finds its keys for secure aggregation, and how a local run makes them.

A deployed site keeps them in its identity folder (REGIONFED_IDENTITY): a client `device.json`
(its own keys), `directory.json` and `operator.pub`; a coordinator `directory.json` and the signed
configurations `secagg-CHANNEL.json`. What the region publishes (all but `device.json`) is looked
for in REGIONFED_ENROLMENT where that is set. In a run on one machine they lie in the run's folder, and
each client's keys only in its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from regionfed.errors import IdentityError
from regionfed.privacy.quantities import Channel
from regionfed.privacy.terms import RegionTerms
from regionfed.run.files import write_atomically
from regionfed.secagg import DeviceKeys, Directory, OperatorKey, SecAggConfig, SignedConfig

IDENTITY_VARIABLE = "REGIONFED_IDENTITY"
ENROLMENT_VARIABLE = "REGIONFED_ENROLMENT"
RUN_VARIABLE = "REGIONFED_RUN_DIR"
DEVICE, DIRECTORY, OPERATOR = "device.json", "directory.json", "operator.pub"


def client_identity(region: str, client: str) -> Path:
    """Folder with this client's own keys."""
    return _folder(Path("clients") / region / client)


def region_identity(region: str) -> Path:
    """Folder with the region's directory, the operator's public key and signed configurations."""
    enrolment = os.environ.get(ENROLMENT_VARIABLE)
    return Path(enrolment) if enrolment else _folder(Path("regions") / region)


def _folder(below: Path) -> Path:
    given, run = os.environ.get(IDENTITY_VARIABLE), os.environ.get(RUN_VARIABLE)
    if given:
        return Path(given)
    if run:
        return Path(run) / below
    raise IdentityError(
        f"secure aggregation needs this site's keys: set {IDENTITY_VARIABLE} to the folder that "
        "`regionfed certs` made"
    )


def load_directory(folder: Path) -> Directory:
    """The region's enrolled devices; raises IdentityError naming the file."""
    path = folder / DIRECTORY
    try:
        return Directory.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise IdentityError(
            f"{path}: {error.strerror}; copy the region's directory of enrolled devices there"
        ) from error


def signed_path(folder: Path, channel: Channel) -> Path:
    """Where the signed configuration of a channel lies."""
    return folder / f"secagg-{channel.value}.json"


def load_signed(folder: Path, channel: Channel) -> SignedConfig:
    """The operator's signed configuration of a channel; raises IdentityError naming the file."""
    path = signed_path(folder, channel)
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        config = SecAggConfig.from_bytes(bytes.fromhex(table["configuration"]))
        return SignedConfig(config, bytes.fromhex(table["signature"]))
    except OSError as error:
        raise IdentityError(
            f"{path}: {error.strerror}; the operator signs it with `regionfed privacy sign`"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise IdentityError(f"{path}: not a signed configuration; sign it again") from error


def sign_channels(
    folder: Path,
    terms: RegionTerms,
    *,
    directory: Directory,
    operator: OperatorKey,
    channels: Iterable[Channel],
) -> list[Path]:
    """Sign what a region's clients will be asked for, one file per channel; return the files."""
    written = []
    for channel in channels:
        config = terms.secagg(channel, directory=directory.digest)
        signed = operator.sign(config)
        table = {"configuration": config.to_bytes().hex(), "signature": signed.signature.hex()}
        path = signed_path(folder, channel)
        write_atomically(path, json.dumps(table).encode())
        written.append(path)
    return written


def enrol_clients(clients: dict[str, Path]) -> Directory:
    """Make the keys that are missing, each in its client's own folder; return the directory."""
    enrolments = []
    for name, folder in clients.items():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / DEVICE
        if not path.exists():
            DeviceKeys.create(name).save(path)
        enrolments.append(DeviceKeys.load(path).enrolment)
    return Directory.of(enrolments)
