"""The run folder: configuration, checkpoints, metrics and the result."""
