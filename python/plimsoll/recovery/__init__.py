"""Recovery of a step, or a function, that runs out of memory."""
