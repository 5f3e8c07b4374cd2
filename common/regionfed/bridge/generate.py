"""Writes `bridge_pb2.py` and its companions from `bridge.proto` (needs grpcio-tools).

`python -m regionfed.bridge.generate [FOLDER]`; a test regenerates and compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

from regionfed.errors import StateError

SOURCE = Path(__file__).with_name("bridge.proto")


def generate(folder: Path) -> list[Path]:
    """Write the generated files below `folder`, as if it held the package `regionfed.bridge`.

    Raises StateError when protoc refuses the source.
    """
    # protoc derives the import path from the path relative to -I.
    root = SOURCE.parents[2]
    code = protoc.main(
        [
            "protoc",
            f"-I{root}",
            f"--python_out={folder}",
            f"--pyi_out={folder}",
            f"--grpc_python_out={folder}",
            str(SOURCE),
        ]
    )
    if code != 0:
        raise StateError(f"protoc ended with {code} on {SOURCE}")
    return sorted((folder / "regionfed" / "bridge").glob("bridge_pb2*"))


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE.parents[2]
    for path in generate(target):
        print(path)
