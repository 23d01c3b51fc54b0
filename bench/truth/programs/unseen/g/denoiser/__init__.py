"""Speech denoising with a complex-spectrogram U-Net."""

__version__ = "0.3.1"
