"""`[network]`: ports of the local federation, polling, and transport security."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from regionfed.config.base import Section


class NetworkConfig(Section):
    """Addresses and transport. Containers and hosts override these by environment."""

    host: str = Field(
        default="127.0.0.1", description="Address that local processes bind and dial."
    )
    base_port: int = Field(
        default=0, ge=0, le=60000, description="First port of `regionfed up`; 0 picks free ports."
    )
    poll: float = Field(
        default=0.2, gt=0, le=10, description="Seconds between looks for new answers."
    )
    tls: bool = Field(
        default=True, description="TLS and node authentication; off is refused outside loopback."
    )
    certificates: Path = Field(
        default=Path("certs"), description="Folder written by `regionfed certs`."
    )
    start_deadline: float = Field(
        default=120.0, gt=0, description="Seconds for a process to be ready."
    )
