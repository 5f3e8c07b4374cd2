"""`python -m regionfed.deploy.role ROLE`: the entry point of every container.

Roles that stay: superlink, superexec, coordinator, uplink, client. Roles that do one thing and
end: identity (makes this site's keys), register (tells a SuperLink its nodes), run (submits the
run, shows its progress, ends with its result). Any other word is a command that is started as it
is, for example `regionfed check`.
"""

from __future__ import annotations

import logging
import os
import sys
import time

from regionfed.deploy.commands import ROLES
from regionfed.deploy.identity import prepare_identity
from regionfed.deploy.registration import register_nodes
from regionfed.deploy.settings import Settings
from regionfed.deploy.start import await_ready, become, bind_to_addresses
from regionfed.errors import RegionFedError

logger = logging.getLogger("regionfed.start")


def main(arguments: list[str] | None = None) -> int:
    """Start the role that the first argument names; the exit status on an error."""
    words = sys.argv[1:] if arguments is None else arguments
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)sZ %(levelname)s %(name)s: %(message)s"
    )
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    role = words[0]
    if role not in ROLES and role not in ("identity", "register"):
        os.execvp(role, words)
    try:
        settings = Settings.from_environment(os.environ)
        if role == "identity":
            prepare_identity(settings, os.environ)
        elif role == "register":
            register_nodes(settings, os.environ)
        else:
            bound = bind_to_addresses(settings)
            launch = ROLES[role](bound)
            await_ready(launch.target, deadline=settings.start_deadline)
            become(launch, bound)
    except RegionFedError as error:
        logger.error("%s stops: %s", role, error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
