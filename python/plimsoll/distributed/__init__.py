"""Several ranks: what they must agree on before any of them waits for another."""
