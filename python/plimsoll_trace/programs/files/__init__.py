"""The files of a program while it is traced: what it writes, removes and moves is so for the program alone."""
