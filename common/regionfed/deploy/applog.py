"""`python -m regionfed.deploy.applog`: a tier's ServerApp output, brought into its container's log.

Flower takes the ServerApp's output away from its process and keeps it in the SuperLink. Started by
the role `superexec` beside its process; ends with the container. What cannot be read is tried again.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from regionfed.deploy.settings import Settings, required
from regionfed.errors import TransportError
from regionfed.flower.adapter import Control
from regionfed.logs import place, structured, wants_json

LOOK_SECONDS = 5.0


@dataclass
class AppLog:
    """Writes what the ServerApps of one SuperLink's runs say after `since` (Unix time)."""

    target: IO[str]
    since: float

    def follow(self, control: Control) -> None:
        """Follow the newest live run to its end; nothing happens while there is none.

        Raises `TransportError` when the SuperLink goes away; the next call goes on from there.
        """
        live = control.live_runs()
        if not live:
            return
        for line in self._lines(control.logs(live[-1], since=self.since)):
            self.target.write(line + "\n")
            self.target.flush()

    def _lines(self, chunks: Iterator[str]) -> Iterator[str]:
        lines = self._split(chunks)
        return structured(lines, place(os.environ)) if wants_json() else lines

    def _split(self, chunks: Iterator[str]) -> Iterator[str]:
        for chunk in chunks:
            self.since = time.time()
            yield from chunk.splitlines()


def main() -> None:
    """Follow one run after another."""
    settings = Settings.from_environment(os.environ)
    runtime = required(settings.runtime, name="REGIONFED_RUNTIME", role="superexec")
    ca = settings.identity / "ca.crt" if settings.tls else None
    log = AppLog(sys.stdout, since=time.time())
    while True:
        control = Control(str(runtime), ca=ca)
        with contextlib.suppress(TransportError), contextlib.closing(control):
            log.follow(control)
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
