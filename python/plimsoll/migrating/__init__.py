"""Reads Python code bases and proposes changes: nothing of what is read is executed."""
