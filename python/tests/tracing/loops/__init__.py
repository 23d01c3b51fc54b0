"""Loops of programs, their batches and their conditions."""
