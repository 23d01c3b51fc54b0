"""What a failed try changed, and how it is put back before the next."""
