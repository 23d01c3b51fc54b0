"""The Python side of python.test.ts: reads or writes a folder of buffers, or counts hits of a trace."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

import numpy

import plimsoll
from plimsoll.buffering.store import Tier


def write(folder):
    with plimsoll.buffers(limit=2**20, folder=folder, file_above=0) as store:
        store.put("bytes", b"\x01\x02\x03")
        store.put("series", numpy.sin(numpy.arange(5000, dtype=numpy.float32) / 500))
        store.put("grid", numpy.arange(6, dtype=numpy.int16).reshape(2, 3))
        store.put("dict é", {"obs": numpy.array([1.5, 2.5]), "done": b"\x01"})


def read(folder):
    with plimsoll.buffers(limit=2**20, folder=folder) as store:
        found = {key: store.get(key) for key in list(store.keys())}
    print(json.dumps({key: shown(value) for key, value in found.items()}))


def shown(value):
    if isinstance(value, dict):
        return {name: shown(one) for name, one in value.items()}
    if isinstance(value, bytes):
        return list(value)
    return {"dtype": value.dtype.name, "shape": value.shape, "sum": float(value.sum())}


def hits(path):
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    tier, count = Tier(given["items"]), 0
    for key in map(str, given["trace"]):
        if tier.use(key) is None:
            tier.add(key, True, 1, 1)
        else:
            count += 1
    print(count)


if __name__ == "__main__":
    {"write": write, "read": read, "hits": hits}[sys.argv[1]](sys.argv[2])
