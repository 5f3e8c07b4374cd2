"""All checks of a process, in the order in which their findings help."""

from __future__ import annotations

from pathlib import Path

from regionfed.checks.result import CheckResult, Code, failed, passed
from regionfed.checks.steps import TIMEOUT_SECONDS, peer_checks, static_checks
from regionfed.checks.target import Target
from regionfed.checks.workload import workload_checks
from regionfed.config.federation import FederationConfig
from regionfed.config.load import load_config
from regionfed.errors import ConfigError


def all_checks(target: Target, *, timeout: float = TIMEOUT_SECONDS) -> list[CheckResult]:
    """Every check of a process; `timeout` is seconds for one answer of a peer."""
    results: list[CheckResult] = []
    config = None if target.config is None else read_config(target.config)
    if isinstance(config, CheckResult):
        results.append(config)
    elif config is not None:
        results.append(passed("configuration", f"{target.config} is valid"))
    results += static_checks(target)
    for peer in target.peers:
        results += peer_checks(peer, timeout=timeout)
    if isinstance(config, FederationConfig):
        results += workload_checks(config, target)
    return results


def read_config(path: Path) -> FederationConfig | CheckResult:
    """The configuration, or the finding that says why it cannot be used."""
    try:
        return load_config(path)
    except ConfigError as error:
        return failed(
            "configuration",
            Code.CONFIG_INVALID,
            str(error),
            fix="correct the file, or the REGIONFED__ variable that is named",
        )
