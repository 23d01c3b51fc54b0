"""Sparse tensors: products of graphs and sparse gradients ask for what CUDA was seen to ask for."""

import unittest

import torch

from tracing.kinds.traced_program import rows_of
from tracing.watching import Asked, watched

from plimsoll.tracing.kernels.sorting import sort_scratch

EDGES, NODES, WIDTH = 300, 50, 8
JAGGED = """
import torch

layer = torch.nn.Linear(64, 32).cuda()
rows = [torch.randn(count, 64, device="cuda") for count in (5, 9, 3)]
result = layer(torch.nested.nested_tensor(rows, layout=torch.jagged))
padded = torch.nested.to_padded_tensor(result, 0.0)
assert result.is_cuda and padded.shape == (3, 9, 32)
padded.sum().backward()
assert layer.weight.grad.shape == (32, 64)
"""

BY_ROWS = """
import torch

matrix = torch.eye(50)
layer = torch.nn.Linear(8, 8).cuda()
for sparse in (matrix.to_sparse_csr(), matrix.to_sparse()):
    for moved in (sparse.cuda(), sparse.to("cuda", non_blocking=True)):
        assert moved.is_cuda and moved.layout == sparse.layout
        (moved @ layer(torch.randn(50, 8, device="cuda"))).sum().backward()
"""


def graph():
    torch.manual_seed(0)
    places = torch.randint(0, NODES, (2, EDGES))
    return torch.sparse_coo_tensor(places, torch.ones(EDGES), (NODES, NODES)).coalesce()


class Products(unittest.TestCase):
    def test_a_matrix_of_places_is_its_indices_and_values(self):
        with watched() as observer:
            asked = Asked(observer)
            matrix = graph().to("meta")
            count = matrix._nnz()
            self.assertEqual(asked.sizes(), [count * 16, count * 4])

    def test_a_product_asks_for_its_result_a_copy_by_columns_and_short_indices(self):
        # As recorded on an H200: zeros, the result, rows, indices twice, a copy by columns, a buffer.
        with watched() as observer:
            matrix = graph().to("meta")
            count = matrix._nnz()
            x = torch.empty(NODES, WIDTH, device="meta")
            dense = NODES * WIDTH * 4
            asked = Asked(observer)
            result = torch.spmm(matrix, x)
            self.assertEqual(result.shape, (NODES, WIDTH))
            self.assertEqual(
                asked.sizes(),
                [dense, dense, (NODES + 1) * 4, count * 4, count * 4, dense, 65536],
            )

    def test_the_gradient_of_rows_brings_columns_into_rows_first(self):
        # In the order of PyTorch's own conversion; CUDA sorts so few without scratch memory.
        with watched() as observer:
            matrix = graph().to_sparse_csr().to("meta")
            count, starts = matrix._nnz(), (NODES + 1) * 8
            x = torch.empty(NODES, WIDTH, device="meta")
            dense = NODES * WIDTH * 4
            asked = Asked(observer)
            columns = matrix.t()
            self.assertEqual(columns.layout, torch.sparse_csc)
            self.assertEqual(asked.sizes(), [])
            result = columns @ x
            self.assertEqual(result.shape, (NODES, WIDTH))
            long, pairs = count * 8, count * 16
            self.assertEqual(
                asked.sizes(),
                [
                    *(NODES * 8, starts, pairs, long, long, long, long, long, pairs, count * 4),
                    *(starts, starts, NODES * 8, dense, dense, 65536),
                ],
            )

    def test_places_by_rows_are_half_of_what_stays(self):
        plain = graph().to_sparse_csr()
        with watched():
            converted = plain.to("meta").t().to_sparse_csr()
        for one in (plain.t().to_sparse_csr(), converted):
            self.assertEqual(one.layout, torch.sparse_csr)
            self.assertEqual(one.shape, (NODES, NODES))
            places = one.col_indices()
            self.assertEqual(places.untyped_storage().nbytes(), 2 * plain._nnz() * 8)

    def test_places_and_values_are_shared_by_rows_of_the_same_order(self):
        with watched() as observer:
            matrix = graph().to("meta")
            asked = Asked(observer)
            self.assertEqual(matrix.to_sparse_csr()._nnz(), matrix._nnz())
            self.assertEqual(asked.sizes(), [(NODES + 1) * 8])

    def test_many_places_are_sorted_with_scratch_memory(self):
        with watched() as observer:
            places = torch.randint(0, 5000, (2, 20000))
            matrix = torch.sparse_coo_tensor(places, torch.ones(20000), (5000, 5000)).coalesce()
            matrix = matrix.to_sparse_csr().to("meta")
            count = matrix._nnz()
            asked = Asked(observer)
            matrix.t().to_sparse_csr()
            self.assertIn(sort_scratch(count), asked.sizes())

    def test_gradients_pass_through_all_kinds_of_products(self):
        with watched():
            coo, csr = graph().to("meta"), graph().to_sparse_csr().to("meta")
            for matrix in (coo, csr):
                x = torch.empty(NODES, WIDTH, device="meta", requires_grad=True)
                (torch.sparse.mm(matrix, x) + matrix @ x).sum().backward()
                self.assertEqual(x.grad.shape, x.shape)

    def test_what_is_not_known_is_named(self):
        with (
            watched(),
            self.assertRaisesRegex(NotImplementedError, "aten::sin of sparse tensors"),
        ):
            torch.sin(graph().to("meta"))

    def test_sums_and_softmax_have_the_shapes_of_real_ones_forward_and_backward(self):
        for run in (
            lambda matrix: torch.sparse.sum(matrix, dim=1).to_dense(),
            lambda matrix: torch.sparse.sum(matrix, dim=(0, 1)),
            lambda matrix: torch.sparse.softmax(matrix, 1).to_dense(),
            lambda matrix: torch.sparse.log_softmax(matrix, 1).to_dense(),
        ):
            with watched():
                values = torch.empty(EDGES, device="meta", requires_grad=True)
                places = torch.randint(0, NODES, (2, EDGES), device="meta")
                result = run(torch.sparse_coo_tensor(places, values, (NODES, NODES)).coalesce())
                self.assertEqual(result.shape, run(graph()).shape)
                result.sum().backward()
                self.assertEqual(values.grad.shape, values.shape)

    def test_rows_of_different_lengths_lie_in_one_tensor(self):
        with watched() as observer:
            rows = [torch.empty(count, WIDTH, device="meta") for count in (5, 9, 3)]
            layer = torch.nn.Linear(WIDTH, 4, device="meta")
            jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
            asked = Asked(observer)
            result = layer(jagged)
            self.assertIn(17 * 4 * 4, asked.sizes())
            padded = torch.nested.to_padded_tensor(result, 0.0)
            self.assertEqual(padded.shape, (3, 9, 4))
            padded.sum().backward()
            self.assertEqual(layer.weight.grad.shape, (4, WIDTH))
            with self.assertRaisesRegex(NotImplementedError, "layout=torch.jagged"):
                torch.nested.nested_tensor(rows)

    def test_a_program_trains_on_rows_of_different_lengths(self):
        asked = [row[2] for row in rows_of(self, JAGGED) if isinstance(row, list) and row[0] == "a"]
        self.assertIn(17 * 32 * 4, asked)

    def test_matrices_of_the_host_are_moved_to_the_gpu_in_each_layout(self):
        phases = [row[1] for row in rows_of(self, BY_ROWS)[1:-1] if row[0] == "m"]
        self.assertIn("phase:first steps", phases)

    def test_sparse_tensors_of_the_host_are_computed(self):
        with watched() as observer:
            asked = Asked(observer)
            result = torch.sparse.mm(graph(), torch.ones(NODES, 1))
            self.assertEqual(result.sum().item(), EDGES)
            self.assertEqual(asked.sizes(), [])


class Gradients(unittest.TestCase):
    def test_of_an_embedding_hold_the_rows_that_were_used(self):
        with watched():
            table = torch.nn.Embedding(1000, 16, sparse=True, device="meta")
            bags = torch.nn.EmbeddingBag(1000, 16, mode="sum", sparse=True, device="meta")
            places = torch.zeros(64, dtype=torch.long, device="meta")
            table(places).sum().backward()
            bags(places, torch.arange(0, 64, 4, device="meta")).sum().backward()
            for module in (table, bags):
                self.assertEqual(module.weight.grad._nnz(), 64)

    def test_optimizers_step_with_them(self):
        with watched():
            table = torch.nn.Embedding(1000, 16, sparse=True, device="meta")
            places = torch.zeros(64, dtype=torch.long, device="meta")
            for kind in (torch.optim.SGD, torch.optim.Adagrad):
                optimizer = kind(table.parameters(), lr=0.1)
                table(places).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
