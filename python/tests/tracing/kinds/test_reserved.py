"""What a program is told that asks how much the allocator holds."""

import gzip
import json
import os
import unittest

from tracing import PACKAGE

from plimsoll.tracing.programs.reserved import Reserved

RECORDED = os.path.join(PACKAGE, "..", "bench", "truth", "allocator-sequences.json.gz")
MIB = 2**20


class Held(unittest.TestCase):
    def test_after_each_request_what_a_card_held(self):
        with gzip.open(RECORDED) as file:
            sequences = json.load(file)["sequences"]
        plain = [s for s in sequences if not s["conf"] and s["capBytes"] is None]
        self.assertGreater(len(plain), 0)
        for sequence in plain:
            events: list = []
            held = Reserved(events, sequence["totalBytes"])
            for kind, number, size, allocated, reserved, *_ in sequence["steps"]:
                events.append(["a", number, size, 0, 0, "t"] if kind else ["f", number])
                self.assertEqual((allocated, reserved), (held.allocated(), held.now()))

    def test_peaks_that_are_reset_segments_that_are_given_back_and_a_card_that_is_full(self):
        events = [
            ["a", 1, 30 * MIB, 0, 0, "w"],
            ["o", 3 * MIB, 0, 1.0, 1],
            ["a", 2, 5, 0, 0, "w", 7],
        ]
        held = Reserved(events, 60 * MIB)
        self.assertEqual((52 * MIB, 33 * MIB), (held.now(), held.peak_allocated()))
        events += [["f", 1], ["c"]]
        self.assertEqual((2 * MIB, 52 * MIB, 512), (held.now(), held.peak(), held.allocated()))
        held.reset_peaks()
        self.assertEqual((2 * MIB, 512), (held.peak(), held.peak_allocated()))
        events += [
            ["a", 3, 40 * MIB, 0, 0, "w"],
            ["f", 3],
            ["m", "x"],
            ["a", 4, 50 * MIB, 0, 0, "w"],
        ]
        self.assertEqual((52 * MIB, 52 * MIB), (held.now(), held.peak()))


if __name__ == "__main__":
    unittest.main()
