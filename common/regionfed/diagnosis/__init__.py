"""Is a global model enough for these regions? Measured before any commitment."""
