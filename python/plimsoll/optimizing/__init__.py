"""A model made to need less memory; each change says what it saves and can be undone."""
