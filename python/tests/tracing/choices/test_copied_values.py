"""Copies of tensors take what is known of them along, in memory of their own."""

import copy
import unittest
from unittest import mock

import torch

from plimsoll.tracing import small_values
from plimsoll.tracing.choices import trained
from plimsoll.tracing.standins.copies import deep_copy


def known(value):
    tensor = torch.empty(value.shape, device="meta")
    small_values.remember(tensor, value)
    return tensor


def copied(*tensors):
    memo = {}
    return [
        deep_copy(one, memo, lambda _, size: torch.empty(size, device="meta")) for one in tensors
    ]


class Copied(unittest.TestCase):
    def test_a_value_is_copied_into_memory_of_its_own_without_the_calls_of_a_tensor(self):
        first = known(torch.arange(6.0).view(2, 3).t())
        with mock.patch.object(torch.Tensor, "__deepcopy__", side_effect=AssertionError):
            (second,) = copied(first)
        small_values.likely_value_of(first).zero_()
        value = small_values.likely_value_of(second)
        self.assertEqual(value.tolist(), [[0, 3], [1, 4], [2, 5]])
        self.assertEqual(value.stride(), (1, 3))

    def test_values_that_share_memory_share_it_in_the_copies(self):
        whole = torch.arange(6.0)
        first, second = copied(known(whole), known(whole[2:4]))
        small_values.likely_value_of(first).mul_(2)
        self.assertEqual(small_values.likely_value_of(second).tolist(), [4, 6])

    def test_other_attributes_are_copied_as_they_are_elsewhere(self):
        first = torch.empty(2, device="meta")
        first.names_of_rows, first.learned = ["a"], torch.ones(2, requires_grad=True)
        (second,) = copied(first)
        first.names_of_rows.append("b")
        self.assertEqual(second.names_of_rows, ["a"])
        self.assertTrue(second.learned.requires_grad)


class Trained(unittest.TestCase):
    def test_a_step_changes_all_values_a_little_in_one_op(self):
        model = torch.nn.Linear(3, 2)
        parameters = [torch.nn.Parameter(torch.empty(2, device="meta")) for _ in range(3)]
        for number, one in enumerate(parameters):
            small_values.remember(one, torch.full((2,), float(number)))
            one.grad = None if number == 1 else torch.empty(2, device="meta")
        optimizer = torch.optim.SGD([*parameters, *model.parameters()], 0.1)
        with mock.patch.object(torch, "_foreach_add", wraps=torch._foreach_add) as added:
            before = trained.values_before(optimizer)
        self.assertEqual(added.call_count, 1)
        self.assertEqual([one is parameters[0] for one, _ in before], [True, False])
        for number, (parameter, value) in zip((0, 2), before):
            self.assertEqual(value.tolist(), (torch.full((2,), float(number)) + 1e-4).tolist())
            self.assertEqual(copy.copy(small_values.value_of(parameter)).tolist(), [number] * 2)
        self.assertEqual(trained.values_before(torch.optim.SGD(model.parameters(), 0.1)), [])
