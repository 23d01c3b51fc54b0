import unittest

import torch

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.watch import Stages

PROGRAM = """
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.zeros(40 * 8, 16)), batch_size=8)
body, head = torch.nn.Linear(16, 64).cuda(), torch.nn.Linear(64, 5).cuda()
first = torch.optim.SGD(head.parameters(), lr=0.1)

def epoch(optimizer):
    for (batch,) in loader:
        head(body(batch.cuda()).detach() if optimizer is first else body(batch.cuda())).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

epoch(first)
whole = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
epoch(whole)
"""


class Stage(unittest.TestCase):
    def test_the_second_ends_after_a_few_batches_though_the_first_optimizer_still_exists(self):
        rows = rows_of(self, PROGRAM)
        names = {row[1]: row[2] for row in rows[1:-1] if row[0] == "s"}
        ops = [names[row[3]] for row in rows[1:-1] if row[0] == "a"]
        self.assertLess(ops.count("aten.addmm.default"), 2 * 2 * 10)


class Trainings(unittest.TestCase):
    def setUp(self):
        self.head = [torch.nn.Parameter(torch.zeros(1))]
        self.body = [torch.nn.Parameter(torch.zeros(1))]
        self.stages, self.steps = Stages(), {}

    def optimizer(self, *parameters):
        made = torch.optim.SGD([one for some in parameters for one in some], lr=0.1)
        self.stages.made(made, self.steps)
        self.steps[id(made)] = 0
        return made

    def step(self, optimizer):
        self.stages.stepped(id(optimizer))
        self.steps[id(optimizer)] += 1

    def over(self, optimizer):
        return self.stages.is_over(id(optimizer))

    def test_an_optimizer_is_over_once_another_steps_its_parameters(self):
        first = self.optimizer(self.head)
        self.step(first)
        second = self.optimizer(self.head, self.body)
        self.assertFalse(self.over(first))
        self.step(second)
        self.assertTrue(self.over(first))
        self.assertFalse(self.over(second))

    def test_two_that_step_in_turn_both_count(self):
        first = self.optimizer(self.head)
        self.step(first)
        second = self.optimizer(self.head)
        self.step(first)
        self.step(second)
        self.assertFalse(self.over(first))

    def test_one_that_steps_again_is_not_over(self):
        first = self.optimizer(self.head)
        self.step(first)
        second = self.optimizer(self.head)
        self.step(second)
        self.step(first)
        self.step(second)
        self.assertFalse(self.over(first))

    def test_parameters_of_its_own_are_waited_for(self):
        generator = self.optimizer(self.head)
        self.step(generator)
        critic = self.optimizer(self.body)
        self.step(critic)
        self.assertFalse(self.over(generator))

    def test_one_that_has_not_stepped_yet_is_waited_for(self):
        first = self.optimizer(self.head)
        second = self.optimizer(self.head, self.body)
        self.step(second)
        self.assertFalse(self.over(first))

    def test_what_is_gone_is_forgotten(self):
        first = self.optimizer(self.head)
        self.step(first)
        second = self.optimizer(self.head)
        self.stages.gone(id(first))
        self.step(second)
        self.assertFalse(self.over(first))


if __name__ == "__main__":
    unittest.main()
