"""Stands in for the supervisor: takes connections and reads what it is told. Usage: listener.py SOCKET."""

import socket
import sys
import threading

server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.bind(sys.argv[1])
server.listen()
print("ready", flush=True)


def read(connection):
    while connection.recv(65536):
        pass


while True:
    threading.Thread(target=read, args=(server.accept()[0],), daemon=True).start()
