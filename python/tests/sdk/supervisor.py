"""A supervisor for tests: answers as it is told to, and keeps what it hears."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import threading

from warm import HANG_SECONDS


class Supervisor:
    def __init__(self, answer=None, path=None):
        """With a path, in the place of one that died."""
        self._folder = tempfile.TemporaryDirectory() if path is None else None
        self.path = path or os.path.join(self._folder.name, "bridge")
        self.heard = []
        self.hung_up = 0
        self._answer = answer or (lambda message: None)
        self._news = threading.Condition()
        self._connections = []
        self._dead = False
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if path is not None:
            os.unlink(path)
        self._server.bind(self.path)
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def of(self, kind):
        return [message for message in list(self.heard) if message["type"] == kind]

    def wait_for(self, kind, count=1, seconds=HANG_SECONDS):
        with self._news:
            self._news.wait_for(lambda: len(self.of(kind)) >= count, seconds)
        return self.of(kind)

    def wait_for_end(self, count=1, seconds=HANG_SECONDS):
        """Until so many of those who spoke have hung up."""
        with self._news:
            return self._news.wait_for(lambda: self.hung_up >= count, seconds)

    def say(self, message):
        for connection in list(self._connections):
            connection.sendall(json.dumps(message).encode() + b"\n")

    def die(self):
        # Closing alone leaves it listening while a thread waits in accept.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._news:
            self._dead = True
        for connection in self._connections:
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.die()
        if self._folder is not None:
            self._folder.cleanup()

    def _accept(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with self._news:
                # One that was accepted while it died has no one to speak to.
                if self._dead:
                    connection.close()
                    return
                self._connections.append(connection)
            threading.Thread(target=self._listen, args=(connection,), daemon=True).start()

    def _listen(self, connection):
        try:
            for line in connection.makefile("rb"):
                message = json.loads(line)
                with self._news:
                    self.heard.append(message)
                    self._news.notify_all()
                answer = self._answer(message)
                if answer is not None:
                    connection.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            pass
        with self._news:
            self.hung_up += 1
            self._news.notify_all()
