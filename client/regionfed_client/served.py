"""What a device answers from: its stored model, composed and written into its architecture."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from regionfed.config.current import CONFIG_VARIABLE
from regionfed.config.federation import FederationConfig
from regionfed.config.load import load_config
from regionfed.errors import ConfigError, ModelError, StateError
from regionfed_client.device import STATE_VARIABLE
from regionfed_client.user_state import UserPart, UserStore
from regionfed_client.workbench import Workbench


@dataclass(frozen=True)
class Place:
    """Where a client's state lies and whose it is."""

    region: str
    client: str
    folder: Path
    config: Path


def find_place(
    *, state: Path | None, region: str | None, client: str | None, config: Path | None
) -> Place:
    """Find the client's state and configuration.

    `state` holds REGION/CLIENT folders, or is the folder of a run, which holds them under
    `clients`; without it the environment variable says where. Region and client may be left out
    where there is only one.

    Raises:
        ConfigError: no folder or configuration is given, or several clients fit.
        StateError: no client's state is there.
    """
    named = state or (Path(os.environ[STATE_VARIABLE]) if os.environ.get(STATE_VARIABLE) else None)
    if named is None:
        raise ConfigError(
            f"where is the device's state? Give --state DIR or set {STATE_VARIABLE}; after "
            "`regionfed simulate` or `up` it is the run's folder"
        )
    if not named.is_dir():
        raise StateError(f"--state {named} is not a folder")
    root = named / "clients" if (named / "clients").is_dir() else named
    found = sorted(
        {
            (path.parent.parent.name, path.parent.name)
            for path in root.glob("*/*/round-*.json")
            if region in (None, path.parent.parent.name) and client in (None, path.parent.name)
        }
    )
    if not found:
        raise StateError(
            f"there is no stored model of {region or '*'}/{client or '*'} under {root}: take part "
            "in a run with client.user.enabled = true, or client.keep_model = true, first"
        )
    if len(found) > 1:
        shown = ", ".join("/".join(pair) for pair in found[:6])
        raise ConfigError(
            f"{root} holds the models of {len(found)} clients ({shown}"
            f"{', ...' if len(found) > 6 else ''}); say which: --region R --client C"
        )
    ((own_region, own_client),) = found
    return Place(
        own_region, own_client, folder=root / own_region / own_client, config=_config(config, named)
    )


def _config(config: Path | None, state: Path) -> Path:
    if config is not None:
        return config
    if (state / "federation.toml").is_file():
        return state / "federation.toml"
    if os.environ.get(CONFIG_VARIABLE):
        return Path(os.environ[CONFIG_VARIABLE])
    raise ConfigError(
        f"which model is it? Give --config FILE (the federation file) or set {CONFIG_VARIABLE}"
    )


@dataclass
class ServedModel:
    """A device's stored model at work."""

    place: Place
    config: FederationConfig
    part: UserPart
    bench: Workbench

    @classmethod
    def open(cls, place: Place) -> ServedModel:
        """Build the architecture and write the composed model into it.

        Raises:
            StateError: the stored model is missing or damaged.
            ModelError: it belongs to another architecture, vocabulary or set of labels.
        """
        part = UserStore(place.folder).load()
        config = load_config(place.config)
        bench = Workbench.open(config)
        if part.layout != bench.layout:
            raise ModelError(
                f"the model in {place.folder} (digest {part.layout}) does not fit {place.config} "
                f"({bench.layout}): give the federation file of the run that it comes from"
            )
        bench.flat.write(part.model())
        if part.buffers is not None:
            bench.flat.write_buffers(part.buffers)
        bench.model.module.eval()
        return cls(place=place, config=config, part=part, bench=bench)


def describe(place: Place) -> dict[str, object]:
    """What is on the device, as JSON values: sizes, weights and counts; no data, no vectors."""
    store = UserStore(place.folder)
    part = store.load()
    calibration = store.calibration()
    return {
        "region": place.region,
        "client": place.client,
        "folder": str(place.folder),
        "round": part.round,
        "parameters": part.regional.size,
        "user_part": part.theta_u is not None,
        "user_part_served": part.theta_u is not None and part.alpha > 0,
        "alpha_u": part.alpha,
        "mu_u": calibration.mu if calibration.conflicts else None,
        "conflicts_seen": len(calibration.conflicts),
        "bytes": sum(path.stat().st_size for path in place.folder.iterdir() if path.is_file()),
        "layout": part.layout,
    }


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep the chatter of model libraries off the terminal; answers go there."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def as_line(value: dict[str, object]) -> str:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False)
