"""What Python runs first in a process that a traced program starts: a folder on its path, by PYTHONPATH."""
