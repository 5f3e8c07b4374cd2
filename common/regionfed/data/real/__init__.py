"""Real data from files under `REGIONFED_DATA` (benchmark section 3)."""
