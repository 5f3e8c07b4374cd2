"""`python -m regionfed.deploy.role ROLE`: the entry point of every container.

Roles that stay: superlink, superexec, coordinator, uplink, client. Roles that do one thing and
end: identity (makes this site's keys), enrol (admits a region's clients to secure aggregation),
register (tells a SuperLink its nodes), run (submits the run, shows its progress, ends with its
result). Any other word is a command that is started as it
is, for example `regionfed check`.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Mapping

from regionfed.deploy.commands import ROLES
from regionfed.deploy.settings import Settings
from regionfed.deploy.start import await_ready, become, bind_to_addresses
from regionfed.errors import RegionFedError
from regionfed.logs import set_up_logs

logger = logging.getLogger("regionfed.start")

Errand = Callable[[Settings, Mapping[str, str]], None]
ERRANDS = {
    "identity": "regionfed.deploy.identity:prepare_identity",
    "enrol": "regionfed.deploy.enrolment:enrol_region",
    "register": "regionfed.deploy.registration:register_nodes",
    "run": "regionfed.deploy.run:execute_run",
}
"""Roles that end, with the functions that do them; imported on demand."""


def main(arguments: list[str] | None = None) -> int:
    """Start the role that the first argument names; the exit status on an error."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    role = words[0]
    if role not in ROLES and role not in ERRANDS:
        os.execvp(role, words)
    os.environ["REGIONFED_ROLE"] = role
    try:
        set_up_logs()
        settings = Settings.from_environment(os.environ)
        if role in ERRANDS:
            _errand(role)(settings, os.environ)
        else:
            bound = bind_to_addresses(settings)
            launch = ROLES[role](bound)
            await_ready(launch.target, deadline=settings.start_deadline)
            become(launch, bound)
    except RegionFedError as error:
        logger.error("%s stops: %s", role, error)
        return error.exit_code
    return 0


def _errand(role: str) -> Errand:
    module, _, function = ERRANDS[role].partition(":")
    errand: Errand = getattr(importlib.import_module(module), function)
    return errand


if __name__ == "__main__":
    sys.exit(main())
