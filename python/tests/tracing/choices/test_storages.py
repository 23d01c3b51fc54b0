"""Storages on the device: where they lie, and when they end."""

import gc
import unittest

import torch

from tracing import watching

COUNT = 200


class Storages(unittest.TestCase):
    def test_what_is_kept_of_a_storage_is_one_object_for_the_garbage_collector(self):
        with watching.watched() as observer:
            storages = [torch.empty(8, device="meta").untyped_storage() for _ in range(COUNT)]
            idents = [observer._live[one._cdata].ident for one in storages]
            observer._live.clear()
            gc.collect()
            gc.disable()
            self.addCleanup(gc.enable)
            before = len(gc.get_objects())
            for storage, ident in zip(storages, idents):
                observer.bind(storage, ident)
            self.assertLessEqual(len(gc.get_objects()) - before, COUNT + COUNT // 10)

    def test_a_storage_that_gets_another_size_or_owner_ends_once(self):
        with watching.watched() as observer:
            tensor, other = (torch.empty(1024, device="meta") for _ in range(2))
            first, second = observer.allocation_of(tensor), observer.allocation_of(other)
            observer.resized(tensor.untyped_storage(), 8192)
            self.assertNotEqual(observer.allocation_of(tensor), first)
            resized = observer.allocation_of(tensor)
            self.assertEqual(observer.disown(other), second)
            del tensor, other
        freed = [event[1] for event in observer.ledger.events if event[0] == "f"]
        self.assertEqual(freed, [first, resized])
