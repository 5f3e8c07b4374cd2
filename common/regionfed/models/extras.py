"""Optional packages, imported when a model first needs them."""

from __future__ import annotations

import importlib
from types import ModuleType

from regionfed.errors import ModelError


def require(module: str, *, extra: str, needed_for: str) -> ModuleType:
    """Import an optional package.

    Raises `ModelError` naming the extra to install when it is missing.
    """
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ModelError(
            f"{needed_for} needs the package {module.partition('.')[0]!r}, which cannot be "
            f"imported ({error}); install it with: pip install 'regionfed[{extra}]'"
        ) from error
    if module == "transformers":
        # Loading bars of single checkpoints would garble the progress of a whole run.
        found.utils.logging.disable_progress_bar()
    return found
