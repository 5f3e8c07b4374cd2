"""The role that makes a site's keys where they are used, once, before anything else starts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from regionfed.deploy.settings import Settings, required_name
from regionfed.errors import ConfigError
from regionfed.identity.site import (
    GLOBAL,
    SiteFolders,
    prepare_client,
    prepare_global,
    prepare_region,
)

logger = logging.getLogger("regionfed.identity")


def prepare_identity(settings: Settings, environ: Mapping[str, str]) -> None:
    """Make what is missing of the identity that `REGIONFED_TIER` and the names ask for.

    Raises `ConfigError` for a tier that does not exist, `IdentityError` if a folder cannot be
    written.
    """
    folders = SiteFolders(
        identity=settings.identity,
        authority=Path(environ.get("REGIONFED_AUTHORITY", "/authority")),
        public=Path(environ.get("REGIONFED_PUBLIC", "/public")),
    )
    if settings.tier == GLOBAL:
        site, made = GLOBAL, prepare_global(folders, hosts=list(settings.hosts))
    elif settings.tier == "region":
        site = required_name(settings.region, name="REGIONFED_REGION", role="identity")
        made = prepare_region(folders, region=site, hosts=list(settings.hosts))
    elif settings.tier == "client":
        region = required_name(settings.region, name="REGIONFED_REGION", role="identity")
        client = required_name(settings.client, name="REGIONFED_CLIENT", role="identity")
        site = f"{region}/{client}"
        made = prepare_client(folders, region=region, client=client)
    else:
        raise ConfigError(
            f"REGIONFED_TIER = {settings.tier!r} is no tier; set it to global, region or client"
        )
    logger.info("identity of %s: %s", site, f"made {', '.join(made)}" if made else "kept")
