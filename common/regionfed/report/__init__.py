"""The page that a person reads after a run."""
