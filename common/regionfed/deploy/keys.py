"""How a site's keys reach its containers: in volumes that it fills itself, or as Compose secrets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

IDENTITY = "/identity"
PUBLIC_FILES = (".crt", ".pub")


class KeyStore(ABC):
    """Where keys lie. `public` is the mount of the files that sites give each other."""

    public: str

    @abstractmethod
    def mount(self, site: str, *names: str, volumes: list[str]) -> dict[str, Any]:
        """The parts of a service that has the files `names` of `site` and mounts `volumes`."""

    @abstractmethod
    def made_by(self, site: str, *, authority: bool) -> dict[str, Any]:
        """The parts of the service that makes the keys of `site`."""

    @abstractmethod
    def declared(self) -> dict[str, Any]:
        """Top-level parts of the file for everything that was mounted."""


class VolumeKeys(KeyStore):
    """One machine: each site's service fills a volume that only this site mounts."""

    public = "public:/public:ro"

    def mount(self, site: str, *names: str, volumes: list[str]) -> dict[str, Any]:
        """The site's identity volume, read-only; the names are all in it."""
        del names
        return {"volumes": [f"{site}-identity:{IDENTITY}:ro", *volumes]}

    def made_by(self, site: str, *, authority: bool) -> dict[str, Any]:
        """The same volume, writable, and one that holds the site's authority."""
        extra = [f"{site}-authority:/authority"] if authority else []
        return {"volumes": [f"{site}-identity:{IDENTITY}", *extra, "public:/public"]}

    def declared(self) -> dict[str, Any]:
        """Nothing beyond the volumes themselves."""
        return {}


class SecretKeys(KeyStore):
    """Separate hosts: private keys are secrets, certificates are configs, each a file.

    The files lie beside the Compose file under `identity/SITE`; the service under the profile
    `setup` makes them, as the user who starts the containers.
    """

    public = "./public:/public:ro"

    def __init__(self, federation: dict[str, str]) -> None:
        self._federation = federation
        self._secrets: dict[str, str] = {}
        self._configs: dict[str, str] = {}

    def mount(self, site: str, *names: str, volumes: list[str]) -> dict[str, Any]:
        """Each file on its own, so that a process sees only what it needs."""
        secrets: list[dict[str, str]] = []
        configs = [self._federation]
        for name in names:
            source = f"{site}-{name.replace('.', '-')}"
            public = name.endswith(PUBLIC_FILES)
            (self._configs if public else self._secrets)[source] = f"./identity/{site}/{name}"
            (configs if public else secrets).append(
                {"source": source, "target": f"{IDENTITY}/{name}"}
            )
        parts: dict[str, Any] = {"configs": configs}
        if secrets:
            parts["secrets"] = secrets
        return parts | {"volumes": volumes}

    def made_by(self, site: str, *, authority: bool) -> dict[str, Any]:
        """Folders beside the file; started by hand, once, under the profile `setup`."""
        extra = [f"./authority/{site}:/authority"] if authority else []
        return {
            "profiles": ["setup"],
            "volumes": [f"./identity/{site}:{IDENTITY}", *extra, "./public:/public"],
        }

    def declared(self) -> dict[str, Any]:
        """The secrets and configs that services refer to."""
        return {
            "secrets": {name: {"file": path} for name, path in self._secrets.items()},
            "configs": {name: {"file": path} for name, path in self._configs.items()},
        }
