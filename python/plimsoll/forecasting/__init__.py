"""When memory will be full: the rules of `plimsoll watch` (src/watch/diagnosis), for a program that runs alone.

Both answer test/fixtures/forecast-rules.json alike. A change there is a change here.
"""
