"""Loops of a program, over loaders and over numbers: shortened, so that all that follows them is seen."""
