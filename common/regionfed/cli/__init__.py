"""The `regionfed` command line."""
