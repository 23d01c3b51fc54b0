"""What PyTorch does on CUDA but not on the meta device, put in its place while a trace runs."""
