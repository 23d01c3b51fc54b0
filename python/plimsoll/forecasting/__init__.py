"""When memory will be full, inside a program: asked of the command, which has the one forecaster there is."""
