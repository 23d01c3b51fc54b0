"""Fewer imports for a trace: parts of torch and transformers that only compilers and clusters need."""
