"""What was fitted to measurements of an H200: which of the kernels runs that cuDNN leaves out without a device."""
