"""The terms under which a client takes part, from its own configuration.

They need the model's size and the tasks, which are dear to find in a fresh process. Under secure
aggregation most messages need nothing else, so a device keeps them in its own folder.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from regionfed.privacy.terms import RegionTerms
from regionfed.run.scores import Record
from regionfed.secagg import read_private, write_private
from regionfed.tasks.spec import TaskSpec
from regionfed.version import own_versions
from regionfed_client.device import device_folder
from regionfed_client.runtime import ClientRuntime


class _Kept(Record):
    """What of the terms is not in the configuration, and for which configuration it was found."""

    made_for: str
    dimension: int
    buffers: int
    clients: int
    tasks: tuple[TaskSpec, ...]


def region_terms(runtime: ClientRuntime) -> RegionTerms:
    """The terms, found from data and model; kept for `known_terms` where sums are masked."""
    bench = runtime.bench
    terms = RegionTerms(
        config=runtime.config,
        dimension=bench.flat.layout.size,
        buffers=bench.flat.read_buffers().size,
        clients=len(bench.data.clients(runtime.region)),
        tasks=bench.data.tasks,
    )
    if terms.masked:
        kept = _Kept(
            made_for=_made_for(runtime),
            dimension=terms.dimension,
            buffers=terms.buffers,
            clients=terms.clients,
            tasks=terms.tasks,
        )
        if _read(runtime) != kept:
            write_private(_path(runtime), kept.model_dump_json().encode())
    return terms


def known_terms(runtime: ClientRuntime) -> RegionTerms:
    """The terms that were kept, without opening data or model; found anew where there are none.

    Data that changed since is not noticed here: compare with `region_terms` before refusing.
    """
    kept = _read(runtime)
    if kept is None:
        return region_terms(runtime)
    return RegionTerms(
        config=runtime.config,
        dimension=kept.dimension,
        buffers=kept.buffers,
        clients=kept.clients,
        tasks=kept.tasks,
    )


def _read(runtime: ClientRuntime) -> _Kept | None:
    path = _path(runtime)
    if not path.exists():
        return None
    try:
        kept = _Kept.model_validate_json(read_private(path))
    except ValidationError:
        return None
    return kept if kept.made_for == _made_for(runtime) else None


def _path(runtime: ClientRuntime) -> Path:
    return device_folder(runtime, purpose="secure aggregation") / "terms.json"


def _made_for(runtime: ClientRuntime) -> str:
    content = f"{own_versions().regionfed} {runtime.config.model_dump_json()}"
    return hashlib.sha256(content.encode()).hexdigest()
