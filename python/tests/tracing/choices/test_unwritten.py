"""Whole numbers that are made without values and written part by part, and rows of graphs that are chosen by them."""

import unittest

import torch

from tracing import watching

from plimsoll.tracing import small_values

NODES = torch.tensor([300, 120, 500, 80])
KEPT = 0.5


def first_places(counts):
    """Of each graph in a batch, and their number: written into what was made without values."""
    places = counts.new_empty(len(counts) + 1)
    places.narrow(0, 0, 1).zero_()
    torch.cumsum(counts, 0, out=places.narrow(0, 1, len(counts)))
    return places


def best_nodes(scores, graph, counts):
    """The places of half of the nodes of each graph, by their scores."""
    order = torch.sort(scores, descending=True)[1]
    sorted_graph, within = torch.sort(graph[order], stable=True)
    rank = torch.arange(len(graph), device=graph.device) - first_places(counts)[sorted_graph]
    kept = (KEPT * counts.float()).ceil().long()
    return order[within[rank < kept[sorted_graph]]]


class Unwritten(unittest.TestCase):
    def test_what_is_written_part_by_part_is_known(self):
        with watching.watched():
            counts = torch.tensor(NODES.tolist(), device="meta")
            self.assertEqual(first_places(counts).tolist(), [0, 300, 420, 920, 1000])

    def test_a_part_that_is_written_with_the_unknown_leaves_nothing_known(self):
        with watching.watched():
            places = torch.empty(4, dtype=torch.int64, device="meta")
            places[:2] = torch.tensor([1, 2], device="meta")
            places[2:] = torch.randn(2, device="meta").argsort()
            self.assertIsNone(small_values.value_of(places))
            unread = torch.empty(4, dtype=torch.int64, device="meta")
            self.assertIsNone(small_values.value_of(unread))

    def test_nodes_that_a_model_chooses_are_of_all_graphs(self):
        with watching.watched():
            counts = torch.tensor(NODES.tolist(), device="meta")
            graph = torch.repeat_interleave(torch.arange(len(NODES), device="meta"), counts)
            scores = torch.randn(len(graph), device="meta", requires_grad=True) * 2
            chosen = graph[best_nodes(scores, graph, counts)]
            self.assertEqual(len(chosen), 500)
            # So many rows has what is made for each graph.
            self.assertEqual(int(chosen.max()) + 1, len(NODES))
            among = torch.arange(len(chosen), device="meta")
            among.scatter_(0, torch.arange(len(chosen), device="meta"), chosen)
            self.assertEqual(int(among.max()) + 1, len(NODES))
