"""What memory there is, who holds it, and how to give it back."""
