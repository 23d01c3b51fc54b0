"""Data for a training loop: advice from measurements, and a loader that follows it."""
