"""Tensors and devices as a program with a GPU sees them, while all of it lies on `meta`."""
