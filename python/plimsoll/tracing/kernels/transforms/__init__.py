"""Which convolutions cuDNN runs by Fourier transform."""
