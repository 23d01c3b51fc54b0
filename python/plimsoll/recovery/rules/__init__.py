"""What follows a failure: how large a part may be, which step comes next, and who decides."""
