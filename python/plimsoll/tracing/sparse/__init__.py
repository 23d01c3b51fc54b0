"""Sparse tensors: `ops` takes them apart into dense ones, `parts` are those."""

from .ops import concerns, is_jagged, makes, new, stand_in
from .parts import is_sparse, stored

__all__ = ["concerns", "is_jagged", "is_sparse", "makes", "new", "stand_in", "stored"]
