"""The files of a program that is traced."""
