"""Differential privacy of the region tier: mechanisms, events, accountant, ledger, audit.

See `docs/privacy.md`. Modules that need scipy, dp_accounting or opacus import them when called,
so a client device without those extras can still clip, add noise and count its participations.
"""
