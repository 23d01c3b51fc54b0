"""A step that runs out of memory, brought back."""
