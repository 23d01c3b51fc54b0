"""Runs a command in a real pseudo-terminal, driven by lines on stdin; needs only Python's library.

usage: pty.py COLUMNS ROWS COMMAND...
stdin:  "send HEX", "resize COLUMNS ROWS", "signal NUMBER", "hangup" (the terminal is closed)
stdout: "out HEX" as it comes; at the end "modes CANONICAL ECHO" (1 or 0 each) unless the terminal
        is closed, and "exit CODE" (negative: a signal)
"""

import fcntl
import os
import select
import struct
import sys
import termios


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def set_size(terminal, columns, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main():
    columns, rows = int(sys.argv[1]), int(sys.argv[2])
    master, slave = os.openpty()
    set_size(master, columns, rows)
    child = os.fork()
    if child == 0:
        # Its own session with the terminal as the controlling one, as a login shell would have.
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for target in (0, 1, 2):
            os.dup2(slave, target)
        os.close(master)
        os.close(slave)
        os.execvp(sys.argv[3], sys.argv[3:])
    pending = b""
    open_master = True
    while True:
        sources = [0] + ([master] if open_master else [])
        ready, _, _ = select.select(sources, [], [], 0.05)
        if open_master and master in ready:
            say("out " + os.read(master, 65536).hex())
            continue
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                os.kill(child, 9)
            pending += data
            while b"\n" in pending:
                line, pending = pending.split(b"\n", 1)
                word, *rest = line.decode().split()
                if word == "send":
                    os.write(master, bytes.fromhex(rest[0]))
                elif word == "resize":
                    set_size(master, int(rest[0]), int(rest[1]))
                elif word == "signal":
                    os.kill(child, int(rest[0]))
                elif word == "hangup":
                    os.close(slave)
                    os.close(master)
                    open_master = False
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            while open_master and select.select([master], [], [], 0)[0]:
                say("out " + os.read(master, 65536).hex())
            if open_master:
                flags = termios.tcgetattr(slave)[3]
                say(f"modes {int(bool(flags & termios.ICANON))} {int(bool(flags & termios.ECHO))}")
            say(f"exit {os.waitstatus_to_exitcode(status)}")
            return


main()
