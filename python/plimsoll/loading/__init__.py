"""Models loaded so that they fit: presets, fallback, a cache."""
