"""Runs a model on the meta device and writes down what CUDA's allocator would be asked for."""
