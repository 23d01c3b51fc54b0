"""What CUDA kernels take besides their outputs, one file per family, found by op name."""
