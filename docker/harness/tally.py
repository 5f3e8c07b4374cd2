"""Counts what passed and what failed, and says so as it happens."""

from __future__ import annotations

import sys
import time


class Tally:
    """One line per check, a closing line, and the exit status."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """A step, with the seconds since the start."""
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", flush=True)

    def check(self, name: str, holds: bool, detail: object = "") -> bool:
        """Note whether `name` holds; `detail` is shown when it does not."""
        if holds:
            self.passed += 1
            self.say(f"ok      {name}")
        else:
            self.failed.append(name)
            self.say(f"FAILED  {name}: {str(detail)[-2000:]}")
        return holds

    def close(self) -> int:
        """Print the closing line and return the exit status."""
        for name in self.failed:
            print(f"failed: {name}")
        print(f"{self.passed} passed, {len(self.failed)} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


class Abort(Exception):
    """Nothing further can be tested; the message says why."""


def fail(text: str) -> None:
    """End the program with a line on standard error."""
    print(text, file=sys.stderr)
    raise SystemExit(2)
