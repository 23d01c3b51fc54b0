"""A session: everything that Plimsoll does inside a program, put together by one configuration."""
