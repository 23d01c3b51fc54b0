"""Memory watched from inside a program: samples, warnings, what was kept, a report."""
