"""A port for ranks that find one another by it."""

import random
import socket

# The system hands out the ports above to any program that connects, before the ranks have imported torch.
LOWEST, FIRST_EPHEMERAL = 20_000, 32_768


def free_port():
    while True:
        port = random.SystemRandom().randrange(LOWEST, FIRST_EPHEMERAL)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
