"""A program as it is, traced: it runs on a pretended GPU, unchanged."""
