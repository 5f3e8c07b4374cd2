"""`regionfed-coordinator`: the coordinator's daemon, from start to a clean stop."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Sequence

from regionfed.bridge.desk import Desk
from regionfed.bridge.store import JobStore
from regionfed.errors import RegionFedError
from regionfed.flower.adapter import Control
from regionfed.flower.bundle import REGIONAL, bundle
from regionfed.logs import set_up_logs
from regionfed.privacy.desk_ledger import DeskLedger
from regionfed_coordinator.daemon.keeper import Keeper
from regionfed_coordinator.daemon.options import DaemonOptions, parse_options
from regionfed_coordinator.daemon.server import DeskServer

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Console entry: exits with the error's code and one line that says what to do."""
    try:
        set_up_logs()
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        run_daemon(parse_options(arguments), stop)
    except RegionFedError as error:
        print(f"regionfed-coordinator: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def run_daemon(options: DaemonOptions, stop: threading.Event) -> None:
    """Serve the desk and keep the regional run until `stop` is set.

    The regional run goes on when the daemon stops; the next daemon adopts it, with every job and
    the region's state as they were committed.
    """
    store = JobStore(options.state_dir, keep=options.keep)
    desk = Desk(store, region=options.region, ledger=DeskLedger(options.state_dir, options.region))
    server = DeskServer(desk, options.bind, tls=options.tls)
    keeper = Keeper(
        lambda: Control(options.superlink, ca=options.superlink_ca),
        bundle(REGIONAL),
        {"region": options.region, "bridge": options.advertise},
        desk,
    )
    logger.info("region %s: desk open at %s", options.region, options.bind)
    keeper.start()
    stop.wait()
    logger.info("region %s: stopping", options.region)
    keeper.stop()
    server.stop()
    store.close()


if __name__ == "__main__":
    main()
