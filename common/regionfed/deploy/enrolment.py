"""The role that enrols a region's clients for secure aggregation and signs what they are asked for.

It runs where the region's authority lies, after the clients have handed in their enrolments, and
publishes `directory.json`, `operator.pub` and the signed configurations for the region's processes
and clients (`REGIONFED_ENROLMENT`). Run again when a client joins or the federation file changes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from regionfed.config.load import load_config
from regionfed.data.open import open_data
from regionfed.deploy.settings import Settings, required_name
from regionfed.engine.enrol import signed_channels
from regionfed.errors import ConfigError, IdentityError
from regionfed.identity.devices import merge_enrolments
from regionfed.identity.files import read_file, write_file
from regionfed.identity.secure_files import DIRECTORY, OPERATOR, sign_channels
from regionfed.models.describe import describe
from regionfed.privacy.terms import RegionTerms
from regionfed.secagg import OperatorKey

logger = logging.getLogger("regionfed.enrol")


def enrol_region(settings: Settings, environ: Mapping[str, str]) -> None:
    """Publish the directory and the signed configurations of `REGIONFED_REGION`.

    Raises `ConfigError` without a federation file, `IdentityError` naming clients whose enrolment
    is missing or forged, `SecureAggregationError` for terms that cannot work.
    """
    region = required_name(settings.region, name="REGIONFED_REGION", role="enrol")
    if settings.config is None:
        raise ConfigError("REGIONFED_CONFIG is not set; set it to the path of the federation file")
    config = load_config(settings.config)
    if not config.privacy.secure_aggregation.enabled:
        logger.info("secure aggregation is off; nobody has to be enrolled")
        return
    authority = Path(environ.get("REGIONFED_AUTHORITY", "/authority"))
    public = Path(environ.get("REGIONFED_PUBLIC", "/public")) / region
    data = open_data(config.data, config.run.seed)
    clients = data.clients(region)
    files = {name: public / "clients" / f"{name}.enrolment.json" for name in clients}
    missing = [f"{name} ({path})" for name, path in files.items() if not path.exists()]
    if missing:
        raise IdentityError(
            f"no enrolment of {', '.join(missing)}; have each client make its identity, put the "
            "file there, and enrol again"
        )
    directory = merge_enrolments(list(files.values()), public / DIRECTORY)
    operator = _operator(authority / "operator.key")
    write_file(
        public / OPERATOR,
        read_file(authority / "operator.key.pub", what="public file"),
        private=False,
    )
    model = describe(config.model, tasks=data.tasks, vocabulary=data.vocabulary)
    terms = RegionTerms(
        config=config,
        dimension=model.parameters,
        buffers=model.buffers,
        clients=len(clients),
        tasks=data.tasks,
    )
    signed = sign_channels(
        public, terms, directory=directory, operator=operator, channels=signed_channels(terms)
    )
    logger.info(
        "%d clients of %s are enrolled, %d channels signed", len(clients), region, len(signed)
    )


def _operator(path: Path) -> OperatorKey:
    if not path.exists():
        OperatorKey.create().save(path)
        logger.info("made %s", path)
    return OperatorKey.load(path)
