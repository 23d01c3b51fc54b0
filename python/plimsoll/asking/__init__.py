"""Questions that the command `plimsoll` answers, asked from Python."""
