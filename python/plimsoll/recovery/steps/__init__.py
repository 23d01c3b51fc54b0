"""A training step: its microbatches, its optimizer, its retries."""
