"""Models that a program converts: as TorchScript, for export, with smaller numbers."""
