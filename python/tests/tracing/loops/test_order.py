"""The order of batches against that of real loaders, with and without workers."""

import random
import unittest

import torch
from torch.utils.data import DataLoader, Sampler

from plimsoll.tracing.programs.loops import order


class AtOnce(Sampler):
    """Batches in an order that is drawn before the first is asked for."""

    def __iter__(self):
        batches = [[i, i + 1] for i in range(0, 16, 2)]
        random.shuffle(batches)
        return iter([batches[i] for i in torch.randperm(8).tolist()])

    def __len__(self):
        return 8


def loader_of(workers, persistent, shuffles):
    chosen = {"batch_size": 2, "shuffle": True} if shuffles else {"batch_sampler": AtOnce()}
    return DataLoader(range(16), num_workers=workers, persistent_workers=persistent, **chosen)


def drawn(loader, batches_of):
    """Three epochs, and what is drawn after them."""
    random.seed(5)
    torch.manual_seed(5)
    epochs = [[list(map(int, batch)) for batch in batches_of(loader)] for _ in range(3)]
    return epochs, random.random(), torch.rand(1).item()


class Order(unittest.TestCase):
    def test_it_is_that_of_a_real_loader(self):
        for workers, persistent in ((0, False), (1, False), (1, True)):
            for shuffles in (True, False):
                with self.subTest(workers=workers, persistent=persistent, shuffles=shuffles):
                    real = drawn(loader_of(workers, persistent, shuffles), iter)
                    ours = drawn(loader_of(workers, persistent, shuffles), order.Epoch)
                    self.assertEqual(ours, real)
