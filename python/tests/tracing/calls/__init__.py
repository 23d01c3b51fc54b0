"""Calls of programs that must not end a trace."""
