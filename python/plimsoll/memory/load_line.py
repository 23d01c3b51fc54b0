"""The load line: the share of a device, or of a limit, that jobs may fill.

src/device/load-line.ts has the same figure; test/fixtures/recovery-rules.json holds both to it.
"""

LOAD_LINE = 0.9
