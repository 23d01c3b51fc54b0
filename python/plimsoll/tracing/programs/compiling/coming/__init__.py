"""Sizes that a compiled function is likely to be called with later, captured and lowered ahead by a fork."""
