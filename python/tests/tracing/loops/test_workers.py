"""What workers of a loader draw and fetch, against real ones."""

import random
import signal
import unittest

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from plimsoll.tracing.programs.loops import order


class Drawn(Dataset):
    """Each sample is drawn, by all generators that programs use."""

    def __init__(self):
        self.held = np.random.default_rng(3)

    def __len__(self):
        return 12

    def __getitem__(self, place):
        drawn = [torch.rand(()).item(), random.random(), np.random.rand(), self.held.random()]
        info = get_worker_info()
        return [place, *drawn, info.id, info.num_workers, info.seed == torch.initial_seed()]


class Stream(IterableDataset):
    """Every worker gives its part, of a length of its own, in an order that it draws."""

    def __iter__(self):
        info = get_worker_info()
        self.given = 0
        numbers = list(range(info.id, 17, info.num_workers + info.id))
        random.shuffle(numbers)
        for number in numbers:
            self.given += 1
            yield [number, self.given, torch.rand(()).item()]


class Begun(IterableDataset):
    """Workers are told their part by what initialises them."""

    start, stop = 0, 8

    def __iter__(self):
        return iter(range(self.start, self.stop))


def take_part(number):
    info = get_worker_info()
    info.dataset.start, info.dataset.stop = 4 * number, 4 * number + 4 + number


def seed_numpy(number):
    np.random.seed((torch.initial_seed() + number) % 2**32)


def with_noise(samples):
    return [*samples, torch.rand(()).item(), np.random.rand()]


def drawn(loader, batches_of):
    """Two epochs, and what is drawn after them."""
    random.seed(5)
    torch.manual_seed(5)
    np.random.seed(5)
    epochs = [list(batches_of(loader)) for _ in range(2)]
    return epochs, random.random(), torch.rand(1).item(), np.random.rand()


def fetched(loader):
    epoch = order.Epoch(loader)
    for index in epoch:
        try:
            yield epoch.fetch(index)
        except StopIteration:
            return


class WhatWorkersDraw(unittest.TestCase):
    def assert_is_as_real(self, dataset_of, **options):
        def loader():
            return DataLoader(dataset_of(), **options)

        self.assertEqual(drawn(loader(), fetched), drawn(loader(), iter))

    def test_samples_and_what_is_made_of_them(self):
        for persistent in (False, True):
            for initialises in (None, seed_numpy):
                with self.subTest(persistent=persistent, initialises=initialises):
                    self.assert_is_as_real(
                        Drawn,
                        batch_size=2,
                        shuffle=True,
                        num_workers=2,
                        collate_fn=with_noise,
                        persistent_workers=persistent,
                        worker_init_fn=initialises,
                    )

    def test_streams_of_different_lengths(self):
        for persistent in (False, True):
            with self.subTest(persistent=persistent):
                self.assert_is_as_real(
                    Stream,
                    batch_size=2,
                    num_workers=2,
                    collate_fn=list,
                    persistent_workers=persistent,
                )

    def test_parts_that_an_initialisation_sets(self):
        self.assert_is_as_real(
            Begun, batch_size=2, num_workers=2, collate_fn=list, worker_init_fn=take_part
        )

    def test_what_only_another_process_allows_changes_nothing(self):
        def ignores_interrupts(number):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise RuntimeError("not in a process of its own")

        before = signal.getsignal(signal.SIGINT)
        loader = DataLoader(range(4), num_workers=1, worker_init_fn=ignores_interrupts)
        self.assertEqual([int(batch) for batch in fetched(loader)], [0, 1, 2, 3])
        self.assertIs(signal.getsignal(signal.SIGINT), before)
        self.assertIsNone(get_worker_info())
