"""Forward passes that are written down from others, instead of being run; the texts that they make."""
