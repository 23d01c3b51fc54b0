"""What the data choose, where they are not known."""
