"""A replay buffer that keeps each observation once."""
