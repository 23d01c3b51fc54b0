"""One file a kind of finding; each looks at a parsed file and says what could change."""
