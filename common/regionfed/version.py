"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import version

__version__ = version("regionfed")
