"""Checkpoints of a training that is killed at any moment, and goes on as if it had not been."""
