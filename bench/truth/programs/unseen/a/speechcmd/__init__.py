"""A keyword spotter: `python -m speechcmd --help`."""
