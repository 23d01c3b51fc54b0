"""What PyTorch's compiler leaves behind is not looked for, and what a program lets go is."""

import gc
import unittest
import weakref
from unittest import mock

from plimsoll.tracing.programs.compiling import garbage


class Circle:
    def __init__(self):
        self.itself = self


class Garbage(unittest.TestCase):
    def setUp(self):
        none = mock.patch.object(garbage, "_left", 0)
        none.start()
        self.addCleanup(none.stop)
        self.addCleanup(gc.collect)
        gc.collect()

    def left(self):
        with garbage.left_lying():
            self.assertFalse(gc.isenabled())
            return weakref.ref(Circle())

    def test_of_the_compiler_is_not_looked_for_when_young_garbage_is(self):
        left = self.left()
        self.assertTrue(gc.isenabled())
        gc.collect(1)
        self.assertIsNotNone(left())
        gc.collect()
        self.assertIsNone(left())

    def test_of_a_program_is_looked_for_before_the_compiler_begins(self):
        own = weakref.ref(Circle())
        self.left()
        self.assertIsNone(own())

    def test_is_looked_for_as_ever_once_much_of_it_lies_there(self):
        with mock.patch.object(garbage, "_LEFT", 0):
            left = self.left()
        gc.collect(1)
        self.assertIsNone(left())

    def test_stays_where_a_program_collects_none(self):
        gc.disable()
        self.addCleanup(gc.enable)
        self.left()
        self.assertFalse(gc.isenabled())

    def test_at_the_end_of_a_program_that_of_the_compiler_stays(self):
        left = self.left()
        own = weakref.ref(Circle())
        garbage.collect()
        self.assertIsNotNone(left())
        self.assertIsNone(own())

    def test_at_the_end_of_a_program_without_a_compiler_all_goes(self):
        own = weakref.ref(Circle())
        # Old by then.
        gc.freeze()
        gc.unfreeze()
        garbage.collect()
        self.assertIsNone(own())
