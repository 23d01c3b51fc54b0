"""Runs rows of a table in Python, each with names of its own, in one process; says which failed.

Reads {"prelude": ..., "rows": [...]} from stdin and answers {"done": ..., "failed": [...]} on the last line.
"""

import json
import sys


def main():
    asked = json.load(sys.stdin)
    failed = []
    for row in asked["rows"]:
        names = {}
        try:
            exec(asked["prelude"], names)
            exec(row, names)
        except BaseException as error:
            failed.append(f"{row}: {type(error).__name__}: {error}")
    print(json.dumps({"done": len(asked["rows"]), "failed": failed}))


if __name__ == "__main__":
    main()
