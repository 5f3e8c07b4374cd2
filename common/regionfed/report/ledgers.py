"""What the ledgers say, one row for each, with its own unit."""

from __future__ import annotations

from regionfed.run.result import PrivacyResult


def privacy_rows(privacy: PrivacyResult) -> tuple[tuple[str, ...], ...]:
    """Ledger, unit, epsilon, what is left of it, that against outsiders, and the releases."""
    return (*_ledger_rows(privacy), *_example_rows(privacy))


def _ledger_rows(privacy: PrivacyResult) -> list[tuple[str, ...]]:
    """One row per region."""
    unit = "one region" if privacy.mode == "paper" else "one client"
    return [
        (
            name,
            unit,
            f"{region.epsilon:.4g}",
            "" if not privacy.budget else f"{max(0.0, privacy.budget - region.epsilon):.4g}",
            "" if region.epsilon_external is None else f"{region.epsilon_external:.4g}",
            ", ".join(f"{count} x {release}" for release, count in region.releases.items()),
        )
        for name, region in privacy.regions.items()
    ]


def _example_rows(privacy: PrivacyResult) -> list[tuple[str, ...]]:
    """A row of its own for DP-SGD, whose unit is one example."""
    example = privacy.example_level
    if example is None:
        return []
    if example.epsilon is None:
        ledger, bound = "on the devices", f"at most {example.budget:.4g}"
        return [(ledger, "one example", bound, "", bound, "example-level-training")]
    return [
        (
            f"{example.clients} clients' own, the largest",
            "one example",
            f"{example.epsilon:.4g}",
            f"{max(0.0, example.budget - example.epsilon):.4g}",
            f"{example.epsilon:.4g}",
            f"{example.charges} x example-level-training",
        )
    ]
