"""Every message between tiers, typed, with the one place that turns it into records."""
