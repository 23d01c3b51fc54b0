"""Classes as rows of zeros with a one: CUDA writes the ones into zeros.

On the meta device, and where PyTorch's compiler looks on, all classes are compared with each label instead, which
takes a mask as well.
"""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor


def one_hot(labels, num_classes=-1):
    """Takes the place of `aten::one_hot`."""
    if num_classes == -1:
        num_classes = int(labels.max().item()) + 1
    if isinstance(labels, FakeTensor):
        classes = torch.arange(num_classes, dtype=labels.dtype, device=labels.device)
        return (labels.unsqueeze(-1) == classes).to(torch.int64)
    rows = torch.zeros((*labels.shape, num_classes), dtype=labels.dtype, device=labels.device)
    return rows.scatter_(-1, labels.unsqueeze(-1), 1)
