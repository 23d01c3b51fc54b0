"""Loops over numbers that train: turns that are alike are left out, so that what follows a loop is seen."""
