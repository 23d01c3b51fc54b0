"""A batch in parts: cut, weighed, run, and put together."""
