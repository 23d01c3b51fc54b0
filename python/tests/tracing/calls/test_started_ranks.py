"""Ranks that a program starts as processes of `multiprocessing`."""

import unittest

from tracing.kinds.traced_program import rows_of

PROGRAM = """
import multiprocessing, os
import torch
import torch.distributed as dist


def train(rank, world_size):
    assert rank == 0 and os.getpid() == parent
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(999, 77).cuda())
    model(torch.zeros(5, 999, device="cuda")).sum().backward()
    raise SystemExit(0)


def count(number, told):
    told.put((number, os.getpid(), "cuda"))


def add(number, total):
    "On cuda later."
    with total.get_lock():
        total.value += number


def write(number):
    open(f"{number}.txt", "w").close()


if __name__ == "__main__":
    parent = os.getpid()
    multiprocessing.set_start_method("fork")
    ranks = [multiprocessing.Process(target=train, args=(rank, 4)) for rank in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * 4
    assert not any(rank.is_alive() for rank in ranks)
    # The others are not ranks: they run in processes of their own.
    told = multiprocessing.Queue()
    other = multiprocessing.Process(target=count, args=(7, told))
    other.start()
    number, process, _ = told.get()
    other.join()
    assert number == 7 and process != parent
    total = multiprocessing.Value("i", 5)
    adder = multiprocessing.Process(target=add, args=(2, total))
    adder.start()
    adder.join()
    assert total.value == 7 and adder.pid != parent
    writer = multiprocessing.Process(target=write, args=(1,))
    writer.start()
    writer.join()
    assert os.path.exists("1.txt")
"""


class StartedRanks(unittest.TestCase):
    def test_the_first_runs_here_and_others_are_not_started(self):
        rows = rows_of(self, PROGRAM)
        asked = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
        self.assertEqual(asked.count(999 * 77 * 4), 2, "weights and gradients")


if __name__ == "__main__":
    unittest.main()
