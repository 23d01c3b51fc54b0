"""Roads in satellite pictures, started with `python -m roadseg`."""
