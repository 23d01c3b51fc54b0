"""Reads the files of this folder as if a stranger had written them."""

from __future__ import annotations

import json
import os
import zlib
from typing import Any

from plimsoll.failure import Failure

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Python's own: while a trace runs, `open` shows the files as the traced program has left them.
_open = open
# The largest of ours has 120 kB, and 400 kB unpacked.
_MAX_PACKED, _MAX_BYTES = 4 << 20, 32 << 20
_GZIP = 31


class Damaged(Failure):
    def __init__(self, path: str, why: str):
        fact = f"the file {os.path.basename(path)} cannot be used: {why}"
        super().__init__("damaged-file", fact, "install plimsoll again", path)


def shipped(name: str) -> str:
    """The path of a file that ships with this package."""
    return os.path.join(_FOLDER, name)


def content_of(path: str) -> bytes:
    """The bytes of a file, unpacked where gzip packed it."""
    try:
        with _open(path, "rb") as file:
            data = file.read(_MAX_PACKED + 1)
    except OSError as error:
        raise Damaged(path, error.strerror or str(error)) from None
    if len(data) > _MAX_PACKED:
        raise Damaged(path, f"it has more than {_MAX_PACKED} bytes")
    return _unpacked(data, path) if path.endswith(".gz") else data


def _unpacked(data: bytes, path: str) -> bytes:
    unpacker = zlib.decompressobj(_GZIP)
    try:
        content = unpacker.decompress(data, _MAX_BYTES)
    except zlib.error as error:
        raise Damaged(path, str(error)) from None
    # gzip's checksum stands at the end.
    if not unpacker.eof:
        raise Damaged(path, f"it is cut off, or has more than {_MAX_BYTES} bytes unpacked")
    return content


def parsed(data: bytes, path: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(path, f"it is not JSON: {error}") from None


def is_list_of(kind: Any, value: Any, most: int) -> bool:
    return (
        isinstance(value, list)
        and 0 < len(value) <= most
        and all(isinstance(item, kind) for item in value)
    )
