"""When memory will be full: the rules of `plimsoll oom` (src/watch/diagnosis), inside a program.

Both answer test/fixtures/forecast-rules.json alike. A change there is a change here.
"""
