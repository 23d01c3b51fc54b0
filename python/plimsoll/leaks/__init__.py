"""Memory that is kept by mistake: found, and given back."""
