"""Sorting, topk and drawing beside what text sampled on an H200 asked the allocator for."""

import unittest

import torch

from tracing.watching import Asked, rows_of, watched

from plimsoll_trace.kernels.registry import rule, rule_for
from plimsoll_trace.kernels.sorting import sort_scratch
from plimsoll_trace.ledger import TEMPORARY, Ledger
from plimsoll_trace.programs.passes.written import steps_of, write_steps
from plimsoll_trace.programs.random_draws import Draws, skip

# Scores of 16 and of 48 texts, each over 60,000 words.
SORTED = {
    16: [3840000, 7680000, 7680000, 7680000, 3840000, 11711999, 173567],
    48: [11520000, 23040000, 23040000, 23040000, 11520000, 35117567, 514559],
}
LARGEST = {
    16: [3200, 6400, 64, 128, 128, 385024, 16384, 3008, 3008, 1279, 1279],
    48: [9600, 19200, 192, 384, 384, 393216, 49152, 3072, 3072, 1279, 1279],
}


class Choosing(unittest.TestCase):
    def test_rows_are_sorted_together_with_the_numbers_of_their_rows(self):
        for rows, sizes in SORTED.items():
            with self.subTest(rows=rows), watched() as observer:
                scores = torch.empty(rows, 60000, device="meta")
                asked = Asked(observer)
                held = scores.sort()
                self.assertEqual(asked.sizes(), sizes)
                self.assertEqual(_live(observer), sum(sizes[:2]))
                del held

    def test_short_rows_are_sorted_where_they_lie(self):
        with watched() as observer:
            scores = torch.empty(4, 4096, device="meta")
            asked = Asked(observer)
            torch.argsort(scores)
            self.assertEqual(asked.sizes(), [65536, 131072, 32768])

    def test_a_dimension_whose_values_lie_apart_is_copied_first(self):
        with watched() as observer:
            scores = torch.empty(60000, 16, device="meta")
            asked = Asked(observer)
            torch.sort(scores, 0)
            values, places, *rest = SORTED[16]
            copies = [3840000, 3840000, 7680000]
            self.assertEqual(asked.sizes(), [values, places, *copies, *rest])

    def test_several_blocks_share_a_long_row_in_the_search_for_the_largest(self):
        for rows, sizes in LARGEST.items():
            with self.subTest(rows=rows), watched() as observer:
                scores = torch.empty(rows, 60000, device="meta")
                asked = Asked(observer)
                held = scores.topk(50)
                self.assertEqual(asked.sizes(), sizes)
                self.assertEqual(_live(observer), sum(sizes[:2]))
                del held

    def test_many_that_were_taken_are_put_in_order_in_new_memory(self):
        # A quarter of the pixels of a batch, as those of the largest loss.
        with watched() as observer:
            losses = torch.empty(3145728, device="meta")
            asked = Asked(observer)
            held = losses.topk(786432)
            found = [3145728, 6291456, 4, 8, 8, 393216, 1024, 3072, 3072, 1279, 1279]
            ordered = [6291456, 3145728, 6291456, 9596415, 6291456]
            self.assertEqual(asked.sizes(), found + ordered)
            self.assertEqual(_live(observer), 3145728 + 6291456)
            del held
            losses.topk(786432, sorted=False)
            self.assertEqual(asked.sizes(), found)

    def test_one_block_takes_a_short_row(self):
        with watched() as observer:
            scores = torch.empty(16, 10000, device="meta")
            asked = Asked(observer)
            scores.topk(5)
            self.assertEqual(asked.sizes(), [320, 640])

    def test_a_draw_divides_all_chances_by_random_numbers(self):
        with watched() as observer:
            chances = torch.empty(16, 60000, device="meta")
            asked = Asked(observer)
            torch.multinomial(chances, 1)
            self.assertEqual(asked.sizes(), [128, 3840000])

    def test_a_running_sum_keeps_a_value_and_a_state_for_each_tile(self):
        """Tokens of 28 experts, counted in 32 bits, as a mixture of experts has them."""
        for dtype, sizes in ((torch.int32, [112, 1023]), (torch.int64, [224, 1279])):
            with self.subTest(dtype=dtype), watched() as observer:
                counts = torch.empty(28, dtype=dtype, device="meta")
                asked = Asked(observer)
                torch.cumsum(counts, 0, dtype=dtype)
                self.assertEqual(asked.sizes(), sizes)


class Rules(unittest.TestCase):
    def test_no_op_has_two(self):
        self.assertIsNotNone(rule_for("aten.sort.default"))
        with self.assertRaisesRegex(ValueError, "aten.sort has a rule already: .*choosing"):
            rule("aten.sort")(lambda launch: None)


def _live(observer):
    """Bytes that are held, beside the scores themselves."""
    sizes = {}
    for event in observer.ledger.events:
        if event[0] == "a":
            sizes[event[1]] = event[2]
        elif event[0] == "f":
            del sizes[event[1]]
    return sum(list(sizes.values())[1:])


# As programs write that make their batches on the GPU.
ON_GPU = """
import torch
for made_by in (torch.Generator("cuda"), torch.Generator(device=torch.device("cuda:0")).manual_seed(3)):
    assert made_by.device == torch.device("cuda:0"), made_by.device
    assert torch.rand(3, generator=made_by, device=made_by.device).is_cuda
assert torch.Generator().device == torch.device("cpu")
assert not torch.rand(3, generator=torch.Generator("cpu")).is_cuda
"""
# The numbers are those of the same lines without a GPU.
AFTER_A_MODEL = """
import torch

def drawn(device):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.Embedding(500, 16)).to(device)
    numbers = [torch.randperm(50), torch.rand(3), torch.randn(20), torch.randint(9, (4,)), torch.empty(5).normal_()]
    return [number.tolist() for number in numbers], model

on_host, _ = drawn("cpu")
on_gpu, model = drawn("cuda")
assert on_gpu == on_host, (on_gpu, on_host)
torch.manual_seed(3)
for shape in ((2048, 1024), (2048,), (500, 16)):
    torch.nn.init.normal_(torch.empty(shape)) if shape[1:] == (16,) else torch.empty(shape).uniform_()
assert torch.randperm(50).tolist() == on_gpu[0]
model[0](torch.ones(8, 1024, device="cuda")).sum().backward()
"""
_ATEN = torch.ops.aten
_SIZES = (1, 15, 16, 17, 623, 624, 1000, 5000)


def after(draw, *arguments, draws=None, before=7):
    torch.manual_seed(5)
    # Not at the beginning of what the generator makes at once.
    torch.rand(before)
    draw(*arguments)
    if draws is not None:
        draws.settle()
    return torch.randint(0, 1 << 30, (4,)).tolist()


class Drawn(unittest.TestCase):
    def setUp(self):
        self.addCleanup(torch.set_rng_state, torch.get_rng_state())

    def test_the_order_goes_on_as_after_a_real_draw(self):
        draws = Draws()
        for func in (_ATEN.uniform_.default, _ATEN.normal_.default):
            for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
                for size in _SIZES:
                    with self.subTest(func=str(func), dtype=dtype, size=size):
                        real = after(func, torch.empty(size, dtype=dtype))
                        meta = torch.empty(size, dtype=dtype, device="meta")
                        followed = after(draws.follow, func, (meta,), {}, draws=draws)
                        self.assertEqual(followed, real)

    def test_a_tensor_whose_values_lie_apart_is_drawn_as_it_is(self):
        real = after(torch.empty(40, 30).t().normal_)
        meta = torch.empty(40, 30, device="meta").t()
        followed = after(Draws().follow, _ATEN.normal_.default, (meta,), {})
        self.assertEqual(followed, real)

    def test_the_generator_moves_on_as_if_it_had_drawn(self):
        for before in (0, 1, 623, 624, 625):
            for count in (0, 1, 623, 624, 625, 1247, 1248, 1249, 3_000_000):
                with self.subTest(before=before, count=count):
                    real = after(lambda n: torch.empty(n).uniform_(), count, before=before)
                    self.assertEqual(after(skip, count, before=before), real)

    def test_what_a_model_of_many_layers_draws_is_left_out_at_once(self):
        shapes = [(2048, 1024), (1024,), (1000, 999), (3,), (2048, 1024)]

        def build(make):
            for shape in shapes:
                make(_ATEN.uniform_.default, shape)
                make(_ATEN.normal_.default, shape)

        draws = Draws()
        real = after(build, lambda func, shape: func(torch.empty(shape)))
        follow = lambda func, shape: draws.follow(func, (torch.empty(shape, device="meta"),), {})  # noqa: E731
        self.assertEqual(after(build, follow, draws=draws), real)
        self.assertTrue(draws.all_followed())

    def test_what_was_drawn_before_a_seed_counts_for_nothing(self):
        draws, weights = Draws(), torch.empty(2048, 1024, device="meta")
        torch.manual_seed(5)
        real = torch.randint(0, 1 << 30, (4,)).tolist()
        torch.manual_seed(5)
        draws.follow(_ATEN.normal_.default, (weights,), {})
        # As trainers do once more.
        torch.manual_seed(5)
        draws.settle()
        self.assertEqual(torch.randint(0, 1 << 30, (4,)).tolist(), real)

    def test_a_program_draws_after_its_model_as_in_a_real_run(self):
        rows_of(self, AFTER_A_MODEL)

    def test_a_generator_says_that_it_is_on_the_gpu(self):
        rows_of(self, ON_GPU)


# Sparse tensors: products of graphs and sparse gradients ask for what CUDA was seen to ask for.

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


# Bytes at once, forward and backward, of matrices of 512 x 512, and of eight of 256 x 256.
MEASURED = {
    "slogdet": ((1060864, 3158016), (2126848, 6326272)),
    "det": ((1060352, 4207104), (2126848, 8423936)),
    "inv": ((3160576, 3145728), (6334976, 6291456)),
    "solve": ((3160576, 3145728), (6334976, 6291456)),
    "qr": ((6294528, 4194304), (7349248, 8388608)),
    "svd": ((5387264, 2097152), (6896640, 4194304)),
    "eigh": ((3224576, 2097152), (4504576, 4194304)),
    "cumprod": ((2097152, 4456448), (4194304, 8912896)),
    "unique": ((3193344, 1048576), (6377984, 2097152)),
    "pinv": ((5388288, None), (8406528, None)),
    "matrix_exp": ((13634560, 58723328), (None, None)),
}
RUN = {
    "slogdet": lambda a: torch.linalg.slogdet(a)[1],
    "det": torch.linalg.det,
    "inv": torch.linalg.inv,
    "solve": lambda a: torch.linalg.solve(a, a),
    "qr": lambda a: torch.linalg.qr(a)[1],
    "svd": lambda a: torch.linalg.svd(a, full_matrices=False)[1],
    "eigh": lambda a: torch.linalg.eigh(a + a.mT)[0],
    "cumprod": lambda a: (a * 0.01 + 1).cumprod(-1),
    "unique": lambda a: a * a.detach().round().unique().sum(),
    "pinv": torch.linalg.pinv,
    "matrix_exp": torch.linalg.matrix_exp,
}
SHAPES = ((512, 512), (8, 256, 256))


def block(size):
    return -(-size // 512) * 512


def peak_of(ledger, since):
    held = peak = 0
    for event in ledger.events[since:]:
        if event[0] == "a":
            held += block(event[2])
        elif event[0] == "f":
            held -= block(ledger.asked(event[1])[2])
        peak = max(peak, held)
    return peak


class Matrices(unittest.TestCase):
    def test_the_peak_of_is_within_a_fiftieth_of_an_h200s(self):
        for name, run in RUN.items():
            for shape, (forward, backward) in zip(SHAPES, MEASURED[name]):
                with self.subTest(name=name, shape=shape), watched() as observer:
                    ledger = observer.ledger
                    source = torch.empty(shape, device="meta", requires_grad=True)
                    begin = len(ledger.events)
                    result = run(source)
                    self.near(peak_of(ledger, begin), forward)
                    grad = torch.empty_like(result)
                    begin = len(ledger.events)
                    result.backward(grad)
                    self.near(peak_of(ledger, begin), backward)

    def test_least_squares_have_the_shapes_of_the_driver_that_cuda_has(self):
        for left, right in (
            ((8, 64, 32), (8, 64, 4)),
            ((6, 6), (6, 2)),
            ((20, 5), (20,)),
            ((5, 3, 9), (5, 3)),
            ((1, 6, 6), (8, 6, 2)),
        ):
            with self.subTest(left=left, right=right), watched():
                matrix = torch.empty(left, device="meta", requires_grad=True)
                found = torch.linalg.lstsq(matrix, torch.empty(right, device="meta"))
                real = torch.linalg.lstsq(torch.rand(left), torch.rand(right), driver="gels")
                self.assertEqual([one.shape for one in found], [one.shape for one in real])
                found.solution.sum().backward()
                self.assertEqual(matrix.grad.shape, left)

    def near(self, size, measured):
        if measured is not None:
            self.assertLess(abs(size - measured), measured / 50)


# Steps of a pass that are put into the record once more: at once, or one by one where each must be looked at.

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
