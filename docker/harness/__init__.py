"""What the end-to-end test and the drills share: the engine, a Compose project, and a tally."""
