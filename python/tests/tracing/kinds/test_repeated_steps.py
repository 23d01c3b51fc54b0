"""Steps of a pass that are put into the record once more: at once, or one by one where each must be looked at."""

import unittest

from plimsoll.tracing.ledger import TEMPORARY, Ledger
from plimsoll.tracing.programs.passes.written import steps_of, write_steps

MIB = 2**20


def a_pass(ledger, held):
    """Asks for three, gives back two and one from before; what is held from it."""
    first = ledger.allocate(3 * MIB, "first", "layer", TEMPORARY)
    kept = ledger.allocate(700, "kept", "layer", TEMPORARY)
    ledger.free(held)
    ledger.unsure_scratch(2 * MIB, 0, 0.5, 1)
    last = ledger.allocate(MIB, "last", "layer", TEMPORARY)
    ledger.free(first)
    ledger.free(last)
    return kept


def one_by_one(ledger):
    ledger.is_plain = lambda held: False


class RepeatedSteps(unittest.TestCase):
    def written(self, prepare):
        """The record of a pass and of two that are written, and what is known of the memory then."""
        ledger = Ledger()
        held = ledger.allocate(5000, "before", "", TEMPORARY)
        start = len(ledger.events)
        kept = a_pass(ledger, held)
        steps = steps_of(ledger.events[start:], {held: "cache"}, {kept: "cache"})
        prepare(ledger)
        for _ in range(2):
            kept = write_steps(ledger, steps, {"cache": kept})["cache"]
        ledger.free(kept)
        return ledger

    def test_at_once_they_are_what_they_are_one_by_one(self):
        def figures(ledger):
            return ledger.live_bytes, ledger.peak_bytes, ledger.asked_bytes, ledger.count

        at_once, others = self.written(lambda ledger: None), self.written(one_by_one)
        self.assertEqual(at_once.events, others.events)
        self.assertEqual(figures(at_once), figures(others))
        self.assertEqual(at_once.live_bytes, 0)
        self.assertEqual([at_once.asked(ident)[1] for ident in range(1, 11)], [*range(1, 11)])
        self.assertIsNone(at_once.asked(0))
        self.assertIsNone(at_once.asked(11))

    def test_memory_runs_out_at_the_same_request(self):
        def short(ledger):
            def over(size):
                raise MemoryError(size, ledger.live_bytes, ledger.peak_bytes, len(ledger.events))

            ledger.limit, ledger.over_limit = 4 * MIB, over
            ledger.allocate(MIB // 2, "more", "", TEMPORARY)

        ended = []
        for prepare in (short, lambda ledger: (short(ledger), one_by_one(ledger))):
            with self.assertRaises(MemoryError) as raised:
                self.written(prepare)
            ended.append(raised.exception.args)
        self.assertEqual(*ended)

    def test_what_a_real_run_may_not_ask_for_ends_with_it(self):
        def loosen(ledger):
            ledger.may_be_less(ledger.count - 1)

        ledger = self.written(loosen)
        self.assertEqual((ledger.live_bytes, ledger._loose_bytes), (0, 0))

    def test_other_streams_are_named(self):
        def switch(ledger):
            ledger.stream_now = lambda: 3

        events = self.written(switch).events
        self.assertEqual([e[6:] for e in events if e[0] == "a"], [()] * 4 + [(3,)] * 6)


if __name__ == "__main__":
    unittest.main()
