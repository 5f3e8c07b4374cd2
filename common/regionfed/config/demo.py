"""The configuration that runs when none is given."""

from __future__ import annotations

from pathlib import Path

DEMO_FILE = Path(__file__).with_name("demo.toml")
"""The demonstration, part of the package."""
