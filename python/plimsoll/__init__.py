"""Plimsoll's Python side: what a PyTorch job will ask the GPU for, found without a GPU.

Importing this package needs no torch; only tracing does.
"""

__version__ = "0.1.0"
