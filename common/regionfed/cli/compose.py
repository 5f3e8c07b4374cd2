"""`regionfed compose`: files that start the federation in containers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regionfed.deploy.compose_files import together, write_split
from regionfed.deploy.kubernetes import write_kubernetes
from regionfed.deploy.monitoring import prometheus_config
from regionfed.deploy.topology import topology_of
from regionfed.deploy.yaml_text import to_yaml

app = typer.Typer(no_args_is_help=True, help="Files that start the federation in containers.")

FEDERATION = Path("recipes/containers.toml")
"""What `docker-compose.yml` trains."""

Config = Annotated[Path, typer.Argument(help="The federation file.")]
Regions = Annotated[int | None, typer.Option(min=1, help="Regions; default: those of the file.")]
Clients = Annotated[int | None, typer.Option(min=1, help="Clients per region; default likewise.")]


@app.command()
def render(
    config: Config = FEDERATION,
    regions: Regions = None,
    clients: Clients = None,
    split: Annotated[
        bool, typer.Option("--split", help="One file per site, for separate hosts.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="File, or with --split folder; default: print.")
    ] = None,
    mount: Annotated[
        str, typer.Option(help="Path of the federation file as the Compose file names it.")
    ] = "",
) -> None:
    """Write Compose files for a federation of any size."""
    topology = topology_of(config, regions=regions, clients=clients)
    if split:
        folder = out or Path("deploy/sites")
        for path in write_split(topology, folder, config=mount or "./federation.toml"):
            typer.echo(path)
        typer.echo(f"Put the federation file beside each of them as {mount or 'federation.toml'}.")
        return
    text = together(topology, config=mount or f"./{config.as_posix()}")
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
        typer.echo(out)


@app.command()
def prometheus(
    config: Config = FEDERATION,
    regions: Regions = None,
    clients: Clients = None,
) -> None:
    """Print the Prometheus configuration that scrapes every tier."""
    topology = topology_of(config, regions=regions, clients=clients)
    header = "Rendered by `regionfed compose prometheus`."
    typer.echo(to_yaml(prometheus_config(topology), header=header), nl=False)


@app.command()
def kubernetes(
    config: Config = FEDERATION,
    regions: Regions = None,
    clients: Clients = None,
    out: Annotated[Path, typer.Option(help="Folder that is written.")] = Path("deploy/kubernetes"),
    image: Annotated[str, typer.Option(help="Images are IMAGE-server, ...")] = "regionfed",
    version: Annotated[str, typer.Option(help="Tag of the images.")] = "0.1.0",
) -> None:
    """Write Kubernetes manifests, one file per site."""
    topology = topology_of(config, regions=regions, clients=clients)
    for path in write_kubernetes(topology, out, image=image, version=version):
        typer.echo(path)
