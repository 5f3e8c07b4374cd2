"""The built-in generator of shop queries with genuine regional conflict (benchmark section 1)."""
