"""Shared vocabulary of the three tiers: configuration, messages, models, data, the method, privacy."""
