"""Memory that gives way: an unmodified program finishes within a limit, at the least cost in time."""
