"""`regionfed up`: every tier as real processes of this machine, over loopback gRPC."""

from regionfed.launch.federation import LocalFederation

__all__ = ["LocalFederation"]
