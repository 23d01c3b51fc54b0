"""Kinds of tensors and kernels, one file each."""
