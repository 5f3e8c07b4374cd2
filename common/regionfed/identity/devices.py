"""A client's keys for secure aggregation, and the region's directory of those it has enrolled.

The keys themselves belong to `regionfed.secagg.identity`; here are the files that carry them
between sites.
"""

from __future__ import annotations

from pathlib import Path

from regionfed.errors import IdentityError
from regionfed.identity.files import private_folder, read_file, refuse_existing, write_file
from regionfed.secagg.identity import DeviceKeys, Directory


def enrolment_path(device: Path) -> Path:
    """Where the public half of the device key file `device` lies."""
    return device.with_suffix(".enrolment.json")


def create_device(device: Path, *, name: str, force: bool = False) -> Path:
    """Make a device's keys (`device`, 0600) and its enrolment, whose path is returned.

    Raises `IdentityError` if the file exists and `force` is not set.
    """
    refuse_existing([device], force=force)
    private_folder(device.parent)
    device.unlink(missing_ok=True)
    keys = DeviceKeys.create(name)
    keys.save(device)
    enrolment = enrolment_path(device)
    write_file(enrolment, Directory.of([keys.enrolment]).to_json().encode(), private=False)
    return enrolment


def merge_enrolments(paths: list[Path], target: Path) -> Directory:
    """Write the region's directory from the enrolment files of its devices, and return it.

    Raises `IdentityError` for a file that is no enrolment, and what `Directory.of` raises for a
    forged or doubled one.
    """
    entries = []
    for path in paths:
        text = read_file(path, what="enrolment").decode("utf-8", errors="replace")
        try:
            entries += list(Directory.from_json(text).entries.values())
        except IdentityError as error:
            raise IdentityError(f"{path}: {error}") from error
    directory = Directory.of(entries)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_file(target, directory.to_json().encode(), private=False)
    return directory
