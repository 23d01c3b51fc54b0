"""Who speaks: embeddings of voices. Run as `python -m speakers`."""
