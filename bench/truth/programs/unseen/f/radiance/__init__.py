"""A radiance field learned from pictures of one scene: `python -m radiance`."""
