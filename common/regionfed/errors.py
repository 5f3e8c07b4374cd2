"""Errors that reach a person, each with the exit code of the process that stops on it.

Every message names what was given, where, and what to do. The exit codes are documented in
`docs/exit-codes.md`, one paragraph each.
"""

from __future__ import annotations


class RegionFedError(Exception):
    """Base of all errors that a user can act on.

    `exit_code` is the status with which a command line ends on it.
    """

    exit_code = 1


class ConfigError(RegionFedError):
    """The configuration file, one of its keys, or an environment override is wrong."""

    exit_code = 2


class DataError(RegionFedError):
    """A data file, a column or a client's partition cannot be resolved."""

    exit_code = 3


class ModelError(RegionFedError):
    """A model cannot be built, loaded, or does not fit its task."""

    exit_code = 4


class ExampleLevelRefused(ModelError):
    """The model has layers that DP-SGD cannot train; its words name layers, never data."""


class UpdateError(RegionFedError):
    """A client's or a region's answer is unusable: wrong shape, wrong type, not finite."""

    exit_code = 5


class QuorumError(RegionFedError):
    """Too few clients or regions answered before the deadline."""

    exit_code = 6


class TransportError(RegionFedError):
    """An address cannot be reached, or the peer does not speak what we speak."""

    exit_code = 7


class IdentityError(RegionFedError):
    """A certificate, a key or a node's name is missing, wrong, expired or unknown."""

    exit_code = 8


class PrivacyError(RegionFedError):
    """A privacy rule forbids the step: an unknown event, a refused participation, a bad ledger."""

    exit_code = 9


class BudgetExhausted(PrivacyError):
    """The next release would exceed the region's privacy budget; the run stops before it."""

    exit_code = 10


class SecureAggregationError(PrivacyError):
    """Secure aggregation refused or aborted; nothing was revealed."""

    exit_code = 11


class StateError(RegionFedError):
    """Durable state (checkpoint, job spool, ledger, region state) is missing or damaged."""

    exit_code = 12


class RunFailed(RegionFedError):
    """A run ended without its result."""

    exit_code = 13
