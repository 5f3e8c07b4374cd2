"""`regionfed schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def schema(
    docs: Annotated[
        Path | None,
        typer.Option(
            "--docs",
            metavar="DIR",
            help="Write federation.schema.json, configuration.md and result.md there.",
        ),
    ] = None,
) -> None:
    """Print the JSON schema of the federation file, or write the generated reference."""
    from regionfed.config.document import generated_documents, schema_text
    from regionfed.run.files import write_atomically

    if docs is None:
        typer.echo(schema_text(), nl=False)
        return
    for name, content in generated_documents().items():
        write_atomically(docs / name, content.encode())
        typer.echo(docs / name)
