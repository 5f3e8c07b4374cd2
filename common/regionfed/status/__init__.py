"""What a federation is doing: read from what its tiers made durable, and asked of who answers."""
