"""Known values beside tensors without memory: how they come about, and when they are computed."""
