"""Programs of several processes: one rank runs here, and the others are pretended."""
