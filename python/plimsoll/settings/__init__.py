"""`plimsoll.config.json` as Python reads it: the same file, variables and schema as the command."""
