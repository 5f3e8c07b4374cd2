"""`regionfed privacy sign`: the operator signs what a region's clients will be asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regionfed.cli.options import ConfigPath, Json, Overrides, read_config


def sign(
    region: Annotated[str, typer.Option("--region", help="Name of the region.")],
    key: Annotated[Path, typer.Option("--key", help="The operator's key; made when absent.")],
    identity: Annotated[
        Path, typer.Option("--identity", help="Folder with the region's directory.json.")
    ],
    config: ConfigPath = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Sign a region's secure-aggregation terms into its identity folder.

    Run it where no coordinator runs, and hand `operator.pub` and `directory.json` to every client.
    """
    import json

    from regionfed.data.open import open_data
    from regionfed.engine.enrol import signed_channels
    from regionfed.errors import ConfigError
    from regionfed.identity.secure_files import OPERATOR, load_directory, sign_channels
    from regionfed.models.describe import describe
    from regionfed.privacy.terms import RegionTerms
    from regionfed.run.files import write_atomically
    from regionfed.secagg import OperatorKey

    federation = read_config(config, overrides)
    if not federation.privacy.secure_aggregation.enabled:
        raise ConfigError(
            "there is nothing to sign: secure aggregation is off; set enabled = true in "
            "[privacy.secure_aggregation]"
        )
    data = open_data(federation.data, federation.run.seed)
    if region not in data.regions:
        raise ConfigError(f"--region {region} is no region; they are {', '.join(data.regions)}")
    directory = load_directory(identity)
    names = data.clients(region)
    missing = sorted(set(names) - set(directory.entries))
    if missing:
        raise ConfigError(
            f"{identity / 'directory.json'} lacks {len(missing)} clients of {region}, such as "
            f"{missing[0]}; merge their enrolments with `regionfed certs directory` first"
        )
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        OperatorKey.create().save(key)
    model = describe(federation.model, tasks=data.tasks, vocabulary=data.vocabulary)
    terms = RegionTerms(
        config=federation,
        dimension=model.parameters,
        buffers=model.buffers,
        clients=len(names),
        tasks=data.tasks,
    )
    written = sign_channels(
        identity,
        terms,
        directory=directory,
        operator=OperatorKey.load(key),
        channels=signed_channels(terms),
    )
    write_atomically(identity / OPERATOR, key.with_name(key.name + ".pub").read_bytes())
    files = [str(path) for path in (*written, identity / OPERATOR)]
    typer.echo(json.dumps({"files": files}) if as_json else "\n".join(files))
