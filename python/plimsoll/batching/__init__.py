"""Batches that adapt to memory, and remember where they are."""
