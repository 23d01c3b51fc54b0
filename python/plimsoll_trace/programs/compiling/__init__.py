"""`torch.compile`: what PyTorch's own compiler would keep, fuse and ask for, worked out without a GPU."""
