"""Results of ops on the meta device, asked once for all calls that are alike."""
