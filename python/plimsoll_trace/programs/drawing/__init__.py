"""Random numbers of the host: those that a real run draws are counted, though not all are made here."""
