"""Runs a command in a pseudo-terminal and prints what it used of a processor, as one JSON object.

usage: in_terminal.py COLUMNS ROWS SETTLE_SECONDS SECONDS COMMAND...
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time


def used_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_until(terminal, until):
    """Takes what the command draws: a terminal that is not read would hold it up."""
    size = 0
    while (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], min(left, 0.5))[0]:
            size += len(os.read(terminal, 65536))
    return size


def main():
    columns, rows = int(sys.argv[1]), int(sys.argv[2])
    settle, seconds = float(sys.argv[3]), float(sys.argv[4])
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execvp(sys.argv[5], sys.argv[5:])
    try:
        read_until(terminal, time.monotonic() + settle)
        before, began = used_seconds(pid), time.monotonic()
        drawn = read_until(terminal, began + seconds)
        used, passed = used_seconds(pid) - before, time.monotonic() - began
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    percent = 100 * used / passed
    print(json.dumps({"corePercent": percent, "bytesPerSecond": drawn / passed}))


main()
