"""Ops as recordings of whole runs on an H200 show them, where a run of one op alone had not."""

import itertools
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
import torchvision

from tracing.watching import Asked, measured, watched

from plimsoll_trace import meta_results
from plimsoll_trace.gpu import H200
from plimsoll_trace.kernels import flex_attention
from plimsoll_trace.kernels.reductions import _halved
from plimsoll_trace.kernels.sorting import _few_rows, sort_scratch
from plimsoll_trace.meta_results import MetaResults


def empty(*shape, dtype=torch.float32, grad=False, **options):
    return torch.empty(*shape, dtype=dtype, device="meta", **options).requires_grad_(grad)


class Losses(unittest.TestCase):
    def test_a_mean_keeps_the_memory_of_all_its_values(self):
        with watched() as observer:
            made, given = empty(8192, 2048, grad=True), empty(8192, 2048)
            sizes = Asked(observer)
            loss = F.mse_loss(made, given)
            whole = 8192 * 2048 * 4
            self.assertEqual(sizes.sizes(), [whole, whole, 2112, 4])
            self.assertEqual(loss.shape, ())
            self.assertEqual(loss.untyped_storage().nbytes(), whole)

    def test_a_mean_over_targets_that_are_spread_keeps_the_memory_of_all(self):
        for shapes in (((64, 32), (1, 32)), ((1, 32), (64, 32))):
            with watched():
                loss = torch.ops.aten.mse_loss(*[empty(*shape) for shape in shapes])
                self.assertEqual(loss.untyped_storage().nbytes(), 64 * 32 * 4)

    def test_values_without_a_mean_are_asked_for_once(self):
        with watched() as observer:
            made, given = empty(64, 32), empty(64, 32)
            sizes = Asked(observer)
            F.mse_loss(made, given, reduction="none")
            self.assertEqual(sizes.sizes(), [64 * 32 * 4])


class Copies(unittest.TestCase):
    def test_sizes_of_complex_numbers_are_complex_numbers_first(self):
        # The spectrum of 32 waves.
        with watched() as observer:
            spectrum, rows = empty(32, 257, 109, dtype=torch.complex64), empty(64, 32)
            sizes = Asked(observer)
            spectrum.abs()
            self.assertEqual(sizes.sizes(), [32 * 257 * 109 * 4, 32 * 257 * 109 * 8])
            rows.abs()
            self.assertEqual(sizes.sizes(), [64 * 32 * 4])

    def test_a_softmax_over_channels_copies_what_lies_channels_last(self):
        # Losses of pictures: the logits of a SegFormer, 8 of 64 classes at 512 x 512.
        for function in (F.softmax, F.log_softmax):
            for layout, copies in ((torch.channels_last, 1), (torch.contiguous_format, 0)):
                with self.subTest(function=function.__name__, layout=layout), watched() as observer:
                    logits = empty(8, 64, 512, 512, memory_format=layout)
                    sizes = Asked(observer)
                    function(logits, 1)
                    self.assertEqual(sizes.sizes(), [512 << 20] * (1 + copies))

    def test_the_product_of_a_softmax_and_its_gradient_is_copied_where_that_lies_in_another_order(
        self,
    ):
        # As in guided-diffusion: `einsum("bts,bcs->bct", weight, v)` has a gradient by columns.
        whole = 8 * 64 * 64 * 4
        orders = {"rows": 0, "columns": 1, "one value": 0, "part": 0}
        for order, copies in orders.items():
            with self.subTest(order=order), watched() as observer:
                scores = empty(8, 64, 64, grad=True)
                chances = scores.softmax(-1)
                grads = {
                    "rows": empty(8, 64, 64),
                    "columns": empty(8, 64, 64).transpose(1, 2),
                    "one value": empty(1, 1, 1).expand(8, 64, 64),
                    "part": empty(8, 64, 128)[..., :64],
                }
                sizes = Asked(observer)
                (made,) = torch.autograd.grad(chances, scores, grads[order])
                self.assertEqual(sizes.sizes(), [whole] * (2 + copies))
                self.assertTrue(made.is_contiguous())

    def test_the_product_of_a_softmax_of_one_head_and_its_gradient_is_not_copied(self):
        # As in a CvT: the gradient of `einsum("bhlt,bhtv->bhlv", chances, v)`.
        with watched() as observer:
            scores = empty(8, 1, 64, 64, grad=True)
            chances = scores.softmax(-1)
            grad = empty(8, 64, 64, 1).permute(0, 3, 1, 2)
            sizes = Asked(observer)
            torch.autograd.grad(chances, scores, grad)
            self.assertEqual(sizes.sizes(), [8 * 64 * 64 * 4] * 2)

    def test_a_slice_of_a_gradient_is_copied_to_be_scaled_down_unless_its_size_stays(self):
        layouts = (torch.channels_last, torch.contiguous_format)
        for mode, layout in itertools.product(("nearest", "bilinear"), layouts):
            for side, copies in ((64, 1), (128, 0)):
                with self.subTest(mode=mode, layout=layout, side=side), watched() as observer:
                    below = empty(8, 64, side, side, memory_format=layout).requires_grad_()
                    beside = empty(8, 64, 128, 128, memory_format=layout)
                    joined = torch.cat([F.interpolate(below, (128, 128), mode=mode), beside], 1)
                    grad = torch.empty_like(joined)
                    sizes = Asked(observer)
                    joined.backward(grad)
                    expected = [8 * 64 * side * side * 4] + [32 << 20] * copies
                    self.assertEqual(sizes.sizes(), expected)

    def test_a_slice_of_a_volumes_gradient_is_copied_too(self):
        for mode in ("nearest", "trilinear"):
            with self.subTest(mode=mode), watched() as observer:
                below, beside = empty(2, 16, 8, 8, 8, grad=True), empty(2, 16, 16, 16, 16)
                doubled = F.interpolate(below, scale_factor=2, mode=mode)
                joined = torch.cat([doubled, beside], 1)
                grad = torch.empty_like(joined)
                sizes = Asked(observer)
                joined.backward(grad)
                self.assertEqual(sizes.sizes(), [2 * 16 * 8**3 * 4, 2 * 16 * 16**3 * 4])

    def test_a_batch_from_the_host_is_put_in_order_on_the_device(self):
        # 16 pictures of 512 x 512, which a loader gave: what lies otherwise comes over as one run first.
        batch, size = torch.empty(16, 3, 512, 512), 48 << 20
        ordered = batch.to(memory_format=torch.channels_last)
        for waits in (True, False):
            with self.subTest(waits=waits), watched() as observer:
                sizes = Asked(observer)
                options = {"device": "meta", "non_blocking": not waits}
                batch.to(**options)
                self.assertEqual(sizes.sizes(), [size])
                ordered.to(**options)
                self.assertEqual(sizes.sizes(), [size])
                batch.to(memory_format=torch.channels_last, **options)
                self.assertEqual(sizes.sizes(), [size, size])

    def test_another_type_is_made_on_the_device_where_nobody_waits(self):
        batch = torch.empty(16, 3, 512, 512)
        for waits, asked in ((True, [24 << 20]), (False, [24 << 20, 48 << 20])):
            with self.subTest(waits=waits), watched() as observer:
                sizes = Asked(observer)
                batch.to("meta", torch.float16, non_blocking=not waits)
                self.assertEqual(sizes.sizes(), asked)


class Casts(unittest.TestCase):
    def test_joining_two_types_makes_no_copy_under_autocast(self):
        with watched() as observer, torch.autocast("cuda", dtype=torch.bfloat16):
            parts = [empty(4, 1, 64), empty(4, 7, 64, dtype=torch.bfloat16)]
            sizes = Asked(observer)
            self.assertEqual(torch.cat(parts, dim=1).dtype, torch.float32)
            self.assertEqual(sizes.sizes(), [4 * 8 * 64 * 4])

    def test_a_softmax_of_float16_into_float32_makes_no_copy_but_one_of_bfloat16_does(self):
        with watched() as observer:
            for dtype, asked in ((torch.float16, 1), (torch.bfloat16, 2)):
                scores = empty(32, 128, 128, dtype=dtype)
                sizes = Asked(observer)
                F.softmax(scores, dim=-1, dtype=torch.float32)
                self.assertEqual(sizes.sizes(), [32 * 128 * 128 * 4] * asked)


class Attention(unittest.TestCase):
    def test_row_sums_are_kept_for_a_backward_pass_only(self):
        sums = 8 * 16 * 197 * 4
        with watched() as observer:
            for grad in (True, False):
                query = empty(8, 16, 197, 64, dtype=torch.bfloat16, grad=grad)
                sizes = Asked(observer)
                F.scaled_dot_product_attention(query, query, query)
                self.assertEqual(sums in sizes.sizes(), grad)


class PixelByPixel(unittest.TestCase):
    def test_the_result_lies_as_the_input_and_the_weight_is_copied_after_it(self):
        with watched() as observer:
            x = empty(32, 96, 56, 56, memory_format=torch.channels_last)
            weight = empty(192, 96, 2, 2)
            sizes = Asked(observer)
            result = F.conv2d(x, weight, stride=2)
            self.assertEqual(sizes.sizes()[:2], [19267584, 294912])
            self.assertTrue(result.is_contiguous(memory_format=torch.channels_last))

    def test_a_channel_for_itself_sums_its_weights_gradient_in_128_parts(self):
        with watched() as observer:
            x = empty(
                16, 512, 64, 64, dtype=torch.bfloat16, memory_format=torch.channels_last, grad=True
            )
            weight = empty(512, 1, 3, 3, dtype=torch.bfloat16, grad=True)
            result = F.conv2d(x, weight, padding=1, groups=512)
            grad = torch.empty_like(result)
            sizes = Asked(observer)
            result.backward(grad)
            self.assertIn(2359296, sizes.sizes())

    def test_a_batch_norm_in_float32_keeps_sums_of_blocks(self):
        # Layers of a wide ResNet with 40 images: channels, pixels of a side, and both scratches.
        for channels, side, forward, backward in (
            (64, 96, 2973236, 1967140),
            (128, 48, 1487160, 984104),
            (256, 24, 744128, 492592),
            (512, 12, 372624, 246848),
            (1024, 6, 191024, 124000),
            (2048, 6, 380976, 246944),
        ):
            with watched() as observer:
                x = empty(40, channels, side, side).to(memory_format=torch.channels_last)
                norm = torch.nn.BatchNorm2d(channels, device="meta")
                sizes = Asked(observer)
                result = norm(x.requires_grad_())
                whole, each = x.numel() * 4, channels * 4
                self.assertEqual([n for n in sizes.sizes() if n != 8], [whole, each, each, forward])
                grad = torch.empty_like(result)
                sizes = Asked(observer)
                result.backward(grad)
                self.assertEqual(sizes.sizes(), [whole, each, each, backward])

    def test_a_batch_norm_channel_by_channel_keeps_none(self):
        with watched() as observer:
            x, norm = empty(40, 64, 24, 24), torch.nn.BatchNorm2d(64, device="meta")
            sizes = Asked(observer)
            norm(x)
            self.assertEqual([n for n in sizes.sizes() if n != 8], [x.numel() * 4, 256, 256])


class Lines(unittest.TestCase):
    def test_a_line_out_of_order_is_copied_first_and_kept_longest(self):
        """A layer of wav2vec2's encoder of sound: both input and gradient come out of a layer norm."""
        with watched() as observer:
            source, grad = empty(2, 999, 512).transpose(1, 2), empty(2, 499, 512).transpose(1, 2)
            weight = empty(512, 512, 2)
            before = len(observer.ledger.events)
            torch.ops.aten.convolution_backward(
                grad, source, weight, [512], [2], [0], [1], False, [0], 1, [True] * 3
            )
            events = observer.ledger.events[before:]
            asked = [event for event in events if event[0] == "a"]
            whole, short = 2 * 999 * 512 * 4, 2 * 499 * 512 * 4
            self.assertEqual([event[2] for event in asked[:3]], [whole, short, whole])
            bias = next(event for event in asked if event[2] == 512 * 4)
            # The gradient's copy is gone before the bias' gradient is asked for, the source's is not.
            self.assertLess(events.index(("f", asked[1][1])), events.index(bias))
            self.assertGreater(events.index(("f", asked[0][1])), events.index(bias))


class Transcripts(unittest.TestCase):
    """The loss of HuBERT: 249 steps, 4 sounds, 32 letters, 80 labels each."""

    def loss(self, grad=True):
        self.scores = empty(4, 249, 32, grad=grad)
        probs = F.log_softmax(self.scores, dim=-1).transpose(0, 1)
        lengths = torch.zeros(4, dtype=torch.long, device="meta")
        return F.ctc_loss(
            probs, empty(320, dtype=torch.long), lengths + 249, lengths + 80, reduction="sum"
        )

    def test_lengths_come_first_and_the_blanks_share_is_summed_at_once(self):
        with watched() as observer:
            sizes = Asked(observer)
            loss = self.loss()
            table, probabilities = 4 * 249 * 161 * 4, 249 * 4 * 32 * 4
            forward = sizes.sizes()
            self.assertEqual(forward[-6:], [32, 32, 32, table, 16, 4])
            grad = torch.empty_like(loss)
            sizes.sizes()
            loss.backward(grad)
            both, row = 4 * 249 * 81 * 4, 4 * 249 * 4
            blanks = [both, row, row, row // 4, both, row]
            # The gradient of the softmax first, then a copy of one that does not lie in one run.
            softmax = [probabilities, probabilities]
            self.assertEqual(sizes.sizes(), [32, 32, 32, table, probabilities, *blanks, *softmax])

    def test_lengths_may_lie_on_either_device_and_the_longest_of_them_counts(self):
        table = 4 * 249 * (2 * 60 + 1) * 4
        for device in ("cpu", "meta"):
            for named in (False, True):
                with self.subTest(device=device, named=named), watched() as observer:
                    probs = F.log_softmax(empty(249, 4, 32, grad=True), dim=-1)
                    steps = torch.full((4,), 249, dtype=torch.long, device=device)
                    lengths = torch.tensor([60, 20, 30, 40], device=device)
                    texts = empty(4, 80, dtype=torch.long)
                    sizes = Asked(observer)
                    if named:
                        loss = F.ctc_loss(probs, texts, input_lengths=steps, target_lengths=lengths)
                    else:
                        loss = F.ctc_loss(probs, texts, steps, lengths, zero_infinity=True)
                    self.assertEqual(sizes.sizes()[3], table)
                    loss.backward()


class Masks(unittest.TestCase):
    def test_a_mask_from_the_host_chooses_what_it_marks(self):
        with watched() as observer:
            values = empty(4, 249, 768)
            mask = torch.tensor([[at < 20 for at in range(249)]] * 4, device="meta")
            sizes = Asked(observer)
            self.assertEqual(values[mask].shape, (80, 768))
            self.assertEqual(sizes.sizes(), [4, 1, 80 * 2 * 8, 1023, 80 * 768 * 4])
            self.assertEqual(observer.notes, set())

    def test_of_any_other_mask_all_are_taken_and_that_is_said(self):
        with watched() as observer:
            values = empty(4, 249, 768)
            self.assertEqual(values[empty(4, 249, dtype=torch.bool)].shape, (996, 768))
            self.assertEqual(len(observer.notes), 1)


class LayerNorm(unittest.TestCase):
    def test_gradients_of_many_short_rows_are_summed_in_blocks(self):
        with watched() as observer:
            x, weight, bias = (
                empty(16, 16384, 64, grad=True),
                empty(64, grad=True),
                empty(64, grad=True),
            )
            result = F.layer_norm(x, (64,), weight, bias)
            grad = torch.empty_like(result)
            sizes = Asked(observer)
            result.backward(grad)
            blocks = [2097152, 2097152, 256, 1048576, 4, 256, 1048576, 4]
            self.assertEqual(sizes.sizes(), [16 * 16384 * 64 * 4, 256, 256, *blocks])


class Bags(unittest.TestCase):
    def test_their_gradient_is_sorted_and_summed_as_that_of_a_long_text(self):
        with watched() as observer:
            table = torch.nn.EmbeddingBag(60000, 64, mode="sum", device="meta")
            chosen = torch.empty(20000, 4, dtype=torch.int64, device="meta")
            sizes = Asked(observer)
            out = table(chosen)
            self.assertEqual(sizes.sizes(), [160000, 160000, 640000, 5120000])
            # As one of many that were stacked, it lies between others.
            grad = empty(20000, 21, 64)[:, 3]
            sizes.sizes()
            out.backward(grad)
            asked = [640000, 640000, 640000, 1315327, 15360000, 640000, 8, 640000, 1535]
            asked += [480000, 480000, 2303, 8, 544000, 17408000]
            self.assertEqual(sizes.sizes(), [5120000, *asked])


class Clouds(unittest.TestCase):
    """Clouds of points: distances of all pairs, the nearest of them, and what these point to."""

    def test_distances_are_one_product_of_wider_points(self):
        whole, column = 16 * 1024 * 64 * 4, 16 * 1024 * 4
        with watched() as observer:
            points = empty(16, 1024, 64)
            sizes = Asked(observer)
            torch.cdist(points, points)
            lengths = [whole, column, column]
            wide = whole + 2 * column
            self.assertEqual(sizes.sizes(), [*lengths * 2, whole, wide, wide, 16 * 1024 * 1024 * 4])

    def test_a_batch_norm_of_rows_sums_in_parts_where_there_are_many(self):
        # As recorded on an H200: of 120,000 rows in 1024 columns, and of 11,887 in 256.
        for rows, columns, blocks in ((120_000, 1024, 128), (11_887, 256, 47), (1000, 64, 0)):
            whole, column = rows * columns * 4, columns * 4
            parts = columns * blocks * 4
            with self.subTest(rows=rows), watched() as observer:
                norm = torch.nn.BatchNorm1d(columns, device="meta")
                given = torch.empty(rows, columns, device="meta", requires_grad=True)
                sizes = Asked(observer)
                out = norm(given)
                locks = [columns // 32 * 4] if blocks else []
                expected = [whole, column, column, *([4 * parts, *locks] if blocks else [])]
                self.assertEqual(sizes.sizes(), expected)
                gradient = torch.empty_like(out)
                sizes.sizes()
                out.backward(gradient)
                sums = [column] * 4 + ([2 * parts, *locks] if blocks else [])
                self.assertEqual(sizes.sizes()[: len(sums) + 1], [*sums, whole])
                norm.eval()(given)
                self.assertEqual(sizes.sizes()[0], whole)

    def test_rows_lie_as_the_places_do_that_they_are_read_at(self):
        table = torch.empty(10000, 1500, device="meta")
        # Words of samples, turned so that steps come first: an LSTM copies what it is given.
        places = torch.zeros(20, 35, dtype=torch.long)
        for turned in (places.t(), places.t().contiguous()):
            expected = torch.zeros(8, 3)[turned].stride()
            with watched():
                rows = table[turned.to("meta")]
                self.assertEqual(rows.shape, (35, 20, 1500))
                self.assertEqual([step // 500 for step in rows.stride()[:2]], list(expected[:2]))

    def test_indices_are_copied_where_they_do_not_lie_evenly(self):
        table = torch.nn.Embedding(1000, 64, device="meta")
        for lie, copies in ((lambda t: t[..., 1], 0), (lambda t: t[..., 1].t(), 1)):
            with self.subTest(copies=copies), watched() as observer:
                # Kinds of goods in histories of clicks.
                histories = torch.zeros(256, 120, 3, dtype=torch.long, device="meta")
                sizes = Asked(observer)
                table(lie(histories))
                rows = 256 * 120
                self.assertEqual(sizes.sizes(), [rows * 8] * copies + [rows * 64 * 4])

    def test_a_single_column_is_no_product_of_cublaslt(self):
        # The head of a regression: its bias is added by cuBLAS, which has one workspace.
        for columns, workspaces in ((1, [32 << 20]), (2, [32 << 20, 1 << 20])):
            with self.subTest(columns=columns), watched(libraries_open=False) as observer:
                given, head = torch.empty(48, 512, device="meta"), torch.nn.Linear(512, columns)
                head = head.to("meta")
                asked = Asked(observer)
                head(given)
                self.assertEqual(asked.sizes()[1:], workspaces)

    def test_the_first_distances_open_cublas(self):
        with watched(libraries_open=False) as observer:
            points = empty(16, 1024, 3)
            sizes = Asked(observer)
            torch.cdist(points, points)
            self.assertEqual(sizes.sizes()[-1], 32 << 20)

    def test_the_least_of_many_rows_are_found_by_their_digits(self):
        rows = 16 * 1024
        with watched() as observer:
            distances = empty(16, 1024, 1024)
            sizes = Asked(observer)
            distances.topk(20, largest=False)
            results = [rows * 20 * 4, rows * 20 * 8]
            counts = [rows * 512, rows * 1024, rows * 4, rows * 4, 1279, 1279]
            self.assertEqual(sizes.sizes(), [*results, rows * 4, rows * 8, rows * 8, *counts])

    def test_the_largest_of_short_rows_take_no_more_than_their_place(self):
        with watched() as observer:
            scores = empty(64, 1000)
            sizes = Asked(observer)
            scores.topk(5)
            self.assertEqual(sizes.sizes(), [64 * 5 * 4, 64 * 5 * 8])

    def test_indices_that_lie_differently_are_laid_out_in_full(self):
        with watched() as observer:
            points, near = empty(16, 1024, 64), empty(16, 1024, 20, dtype=torch.int64)
            clouds = torch.arange(16, device="meta")[:, None, None]
            sizes = Asked(observer)
            points[clouds, near]
            self.assertEqual(sizes.sizes(), [16 * 1024 * 20 * 8, 16 * 1024 * 20 * 64 * 4])
            points[near, near]
            self.assertEqual(len(sizes.sizes()), 1)

    def test_the_gradient_adds_up_its_places_in_the_first_of_them(self):
        count = 16 * 1024 * 20
        with watched() as observer:
            points = empty(16, 1024, 64, grad=True)
            clouds = torch.arange(16, device="meta")[:, None, None]
            picked = points[clouds, empty(16, 1024, 20, dtype=torch.int64)]
            grad = torch.empty_like(picked)
            sizes = Asked(observer)
            picked.backward(grad)
            self.assertEqual(
                sizes.sizes(), [16 * 1024 * 64 * 4, *[count * 8] * 4, *[count * 8] * 3, 5321215]
            )


class Boundaries(unittest.TestCase):
    """From these sizes on a kernel takes more for itself. `extra` is all that it asks for beside its results."""

    def extra(self, op, inputs, *results):
        with watched() as observer:
            sizes = Asked(observer)
            op(*inputs)
            asked = sizes.sizes()
        for result in results:
            asked.remove(result)
        return asked

    def test_long_rows_are_searched_by_several_blocks_the_shorter_the_more_there_are(self):
        for rows, least in (
            (20, 20_000),
            (21, 10_000),
            (40, 10_000),
            (41, 8000),
            (80, 8000),
            (81, 5000),
            (199, 5000),
            (200, 3000),
            (799, 3000),
            (800, 800),
            (4000, 800),
            (4001, 400),
        ):
            for length, several in ((least, True), (least - 1, False)):
                with self.subTest(rows=rows, length=length):
                    values = [empty(rows, length)]
                    extra = self.extra(lambda x: x.topk(3), values, rows * 12, rows * 24)
                    self.assertEqual(bool(extra), several)

    def test_the_largest_are_put_in_order_where_they_lie_or_sorted_elsewhere(self):
        for rows, taken, ordered, extra in (
            (3, 4096, True, []),
            (3, 4097, False, []),
            # Sorted together: places and values, the scratch of both sorts, and what the places are looked up with.
            (3, 4097, True, [98328, 49164, 98328, 98328, 49164, 159743, 5631, 98328]),
            (
                127,
                4097,
                True,
                [4162552, 2081276, 4162552, 4162552, 2081276, 6351871, 95743, 4162552],
            ),
            # Each row in a sort of many.
            (128, 4097, True, [4195328, 2097664, 4195328, 6293247, 4195328]),
            (1, 4097, True, [32776, 16388, 32776, 59391, 32776]),
        ):
            with self.subTest(rows=rows, taken=taken, ordered=ordered):
                count = rows * taken
                found = self.extra(
                    torch.topk,
                    (empty(rows, 4200), taken, -1, True, ordered),
                    count * 4,
                    count * 8,
                )
                self.assertEqual(found, extra)

    def test_a_few_very_long_rows_are_sorted_each_for_itself(self):
        for taken, extra in ((999_999, 9 + 8), (1_000_000, 9 + 5)):
            with self.subTest(taken=taken):
                given, count = (empty(2, 2_000_000), taken), 2 * taken
                found = self.extra(torch.topk, given, count * 4, count * 8)
                self.assertEqual(len(found), extra)

    def test_few_rows_of_a_table_are_summed_with_atomic_adds(self):
        for rows, partials, width, few in (
            (527, 4 * 527 + 1, 32, True),
            (527, 4 * 527, 32, False),
            (528, 4 * 528 + 1, 32, False),
            (527, 4 * 527 + 1, 33, True),
            # Wider rows take a block for each 1024 columns.
            (263, 4 * 526 + 1, 2048, True),
            (264, 4 * 528 + 1, 2048, False),
        ):
            self.assertEqual(_few_rows(H200, rows, partials, width), few, (rows, partials, width))

    def test_which_value_was_the_largest_is_kept_where_a_bag_gives_its_largest(self):
        for mode, forward, backward in (("sum", 4, 15), ("mean", 4, 15), ("max", 5, 1)):
            with self.subTest(mode=mode), watched() as observer:
                table = torch.nn.EmbeddingBag(60000, 64, mode=mode, device="meta")
                chosen = torch.empty(20000, 4, dtype=torch.int64, device="meta")
                sizes = Asked(observer)
                out = table(chosen)
                self.assertEqual(len(sizes.sizes()), forward)
                grad = torch.empty_like(out)
                sizes.sizes()
                out.backward(grad)
                self.assertEqual(len(sizes.sizes()), backward)

    def test_a_long_text_is_sorted(self):
        backward = torch.ops.aten.embedding_dense_backward
        for tokens, extra in ((3072, 0), (3073, 14)):
            with self.subTest(tokens=tokens):
                given = (empty(tokens, 8), empty(tokens, dtype=torch.int64), 1000, -1, False)
                self.assertEqual(len(self.extra(backward, given, 32000)), extra)

    def test_a_layer_norm_sums_many_short_rows_in_blocks(self):
        for rows, columns, blocks in (
            (65_536, 32, False),
            (65_537, 32, True),
            (65_537, 66 * 32 - 1, True),
            (65_537, 66 * 32, False),
        ):
            with self.subTest(rows=rows, columns=columns):
                one, stats, weight = empty(rows, columns), empty(rows, 1), empty(columns)
                given = (one, one, [columns], stats, stats, weight, weight, [True] * 3)
                results = (rows * columns * 4, columns * 4, columns * 4)
                found = self.extra(torch.ops.aten.native_layer_norm_backward, given, *results)
                self.assertEqual(bool(found), blocks)

    def test_a_batch_norm_of_rows_shares_columns_among_eight_blocks_or_more(self):
        # Blocks of 32 columns and 16 threads with 16 values each: 256 rows.
        for rows, columns, extra in (
            (7 * 256, 64, []),
            (7 * 256 + 1, 64, [4 * 64 * 8 * 4, 8]),
            (200 * 256, 64, [4 * 64 * 128 * 4, 8]),
            # One column is shared by blocks of 512 threads.
            (7 * 512 * 16 + 1, 1, [4 * 8 * 4, 4]),
        ):
            with self.subTest(rows=rows, columns=columns):
                norm = torch.nn.BatchNorm1d(columns, device="meta")
                # Batches are counted, too.
                results = (8, rows * columns * 4, columns * 4, columns * 4)
                self.assertEqual(self.extra(norm, [empty(rows, columns)], *results), extra)

    def test_a_bias_is_fused_into_products_of_matrices(self):
        for bias, left, right, fused in (
            ((5,), (2, 2), (2, 5), True),
            ((2,), (2, 2), (2, 2), True),
            ((1, 5), (2, 2), (2, 5), False),
            ((5,), (1, 2), (2, 5), False),
            ((5,), (2, 1), (1, 5), False),
            ((1,), (2, 2), (2, 1), False),
        ):
            with self.subTest(bias=bias, left=left, right=right):
                with watched(libraries_open=False) as observer:
                    torch.addmm(empty(*bias), empty(*left), empty(*right))
                libraries = {name for name, *_ in observer.workspaces}
                self.assertEqual(libraries, {"cublas", "cublaslt"} if fused else {"cublas"})

    def test_boxes_that_overlap_are_found_in_blocks_of_64(self):
        for count, words in ((64, 1), (65, 2)):
            with self.subTest(count=count):
                found = self.extra(torchvision.ops.nms, (empty(count, 4), empty(count), 0.5))
                scores, boxes, places = count * 4, count * 16, count * 8
                sorting = [scores, places, sort_scratch(count, key=4)]
                self.assertEqual(found, [*sorting, boxes, places * words, places, places])

    def test_indices_of_several_types_are_widened(self):
        points, near, far = (
            empty(16, 64),
            empty(20, dtype=torch.int64),
            empty(20, dtype=torch.int32),
        )
        for indices, extra in (((near, far), [160]), ((far, near), [160]), ((near, near), [])):
            self.assertEqual(self.extra(lambda a, b: points[a, b], indices, 80), extra)

    def test_flex_attention_of_few_queries_shares_out_the_keys(self):
        query, key = empty(2, 8, 64, 32), empty(2, 2, 256, 32)
        value, rows = empty(2, 2, 256, 16), 2 * 8 * 64 * 4
        op = torch.ops.plimsoll.flex_attention
        # 132 multiprocessors for 4 heads of keys: 33 parts, twice.
        part = 66 * rows
        short = [part, part, part * 16, rows, rows * 16]
        for is_short, sizes in ((True, short), (False, [rows, rows, rows * 16])):
            self.assertEqual(self.extra(op, (query, key, value, [], is_short)), sizes)
        out, sums = empty(2, 8, 64, 16), empty(2, 8, 64)
        for sums_grad, taken in ((None, [rows]), (sums, [rows, rows])):
            given = (query, key, value, out, sums, out, sums_grad, [])
            found = self.extra(torch.ops.plimsoll.flex_attention_backward, given)
            self.assertEqual(found, [*taken, 131072, 131072, 65536])

    def test_flex_attention_generates_with_few_queries_and_heads_that_can_be_shared_out(self):
        for heads, key_heads, queries, mask_heads, short in (
            (8, 2, 127, 1, True),
            (8, 2, 128, 1, False),
            (8, 2, 0, 1, False),
            (6, 2, 64, 1, False),
            (8, 8, 64, 8, True),
            (8, 8, 64, 2, False),
            (8, 2, 64, 8, False),
        ):
            query, value = empty(1, heads, queries, 16), empty(1, key_heads, 256, 16)
            found = flex_attention.is_short(query, value, mask_heads)
            self.assertEqual(found, short, (heads, key_heads, queries, mask_heads))

    def test_flex_attention_lays_results_out_as_the_queries(self):
        query, key = empty(2, 64, 8, 32).transpose(1, 2), empty(2, 8, 256, 32)
        with watched():
            out, *_ = torch.ops.plimsoll.flex_attention(query, key, key[..., :16], [], False)
        self.assertEqual((out.shape, out.stride()), ((2, 8, 64, 16), (8192, 16, 128, 1)))

    def test_what_32_bits_cannot_address_is_reduced_in_parts(self):
        for sizes, parts in (
            ([1 << 19, 1023], [[1 << 19, 1023]]),
            ([1 << 19, 1024], [[1 << 18, 1024]] * 2),
            ([1 << 20, 1024], [[1 << 18, 1024]] * 4),
            ([3, 1 << 28], [[1, 1 << 28]] * 3),
            ([1, 1 << 30], [[1, 1 << 28]] * 4),
        ):
            self.assertEqual(_halved(sizes, (sizes[1], 1), 4), parts)
        # Parts in half precision are added up in float32.
        for dtype, collected in ((torch.bfloat16, [8192]), (torch.float32, [])):
            size = dtype.itemsize
            values = [empty((1 << 33) // size // 2048, 2048, dtype=dtype)]
            found = self.extra(lambda x: x.sum(0), values, 2048 * size)
            self.assertEqual([one for one in found if one == 8192], collected)

    def test_a_batch_norm_of_rows_adds_up_sums_backward_where_it_trains(self):
        rows, column = empty(100, 64), empty(64)
        for trains, extra in ((True, [256, 256]), (False, [])):
            given = (rows, rows, column, column, column, column, column, trains, 1e-5, [True] * 3)
            found = self.extra(
                torch.ops.aten.native_batch_norm_backward, given, 100 * 64 * 4, 256, 256
            )
            self.assertEqual(found, extra, trains)

    def test_values_in_order_are_held_until_the_different_ones_are_found(self):
        with watched() as observer:
            values = empty(64, 64)
            kept = values.unique()
            kinds = [event[0] for event in observer.ledger.events]
            self.assertEqual((kinds[-1], kinds.count("f"), kept.dim()), ("f", 2, 1))


# Single ops against what they asked a real H200's allocator for, a sample of each kind.

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
ROWS = measured("ops")


def leaf(*shape, dtype):
    return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=True)


def numbers(*shape):
    return torch.zeros(*shape, dtype=torch.long, device="meta")


def of_rows(row, dtype):
    x = leaf(row["rows"], row["hidden"], dtype=dtype)
    weight, bias = leaf(row["hidden"], dtype=dtype), leaf(row["hidden"], dtype=dtype)
    shape = (row["hidden"],)
    index = numbers(row["rows"])
    return {
        "layer_norm": lambda: F.layer_norm(x, shape, weight, bias),
        "rms_norm": lambda: F.rms_norm(x, shape, weight),
        "gelu": lambda: F.gelu(x),
        "silu": lambda: F.silu(x),
        "relu": lambda: F.relu(x),
        "tanh": lambda: torch.tanh(x),
        "softmax": lambda: F.softmax(x, -1),
        "dropout": lambda: F.dropout(x, 0.1, True),
        "cumsum": lambda: x.cumsum(-1),
        "index_select rows": lambda: x[index],
    }[row["op"]]


def of_linear(row, dtype):
    shape = (4, row["rows"] // 4) if row["op"] == "linear 3d" else (row["rows"],)
    x = leaf(*shape, row["inner"], dtype=dtype)
    if row["op"].startswith("addmm"):
        weight, bias = (
            leaf(row["inner"], row["outer"], dtype=dtype),
            leaf(row["outer"], dtype=dtype),
        )
        return lambda: torch.addmm(bias, x, weight)
    weight = leaf(row["outer"], row["inner"], dtype=dtype)
    bias = None if row["op"] == "linear no bias" else leaf(row["outer"], dtype=dtype)
    return lambda: F.linear(x, weight, bias)


def of_image(row, dtype):
    channels = row["channels"]
    x = leaf(row["n"], channels, row["hw"], row["hw"], dtype=dtype)
    with torch.device("meta"):
        module = {
            "group_norm": lambda: torch.nn.GroupNorm(32, channels, dtype=dtype),
            "max_pool2d": lambda: torch.nn.MaxPool2d(2),
            "adaptive_avg_pool2d": lambda: torch.nn.AdaptiveAvgPool2d(1),
            "interpolate bilinear": lambda: torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        }[row["op"]]()
    return lambda: module(x)


def of_attention(row, dtype):
    query = leaf(row["batch"], row["heads"], row["seq"], row["head"], dtype=dtype)
    key, value = (
        leaf(row["batch"], row["kv"], row["keys"], row["head"], dtype=dtype) for _ in range(2)
    )
    kind = row["mask"]
    mask = None
    if kind == "bool":
        mask = torch.ones(row["batch"], 1, row["seq"], row["keys"], dtype=torch.bool, device="meta")
    elif kind == "float":
        mask = torch.zeros(1, 1, row["seq"], row["keys"], dtype=dtype, device="meta")
    elif kind == "float-grad":
        mask = leaf(1, row["heads"], row["seq"], row["keys"], dtype=dtype)
    grouped = row["heads"] != row["kv"]
    return lambda: F.scaled_dot_product_attention(
        query, key, value, mask, row["dropout"], kind == "causal", enable_gqa=grouped
    )


def build(row):
    op, dtype = row["op"], DTYPES[row["dtype"]]
    if op == "sdpa":
        return of_attention(row, dtype)
    if op.startswith(("linear", "addmm")):
        return of_linear(row, dtype)
    if "channels" in row:
        return of_image(row, dtype)
    if op == "embedding":
        weight, tokens = leaf(row["vocab"], row["hidden"], dtype=dtype), numbers(row["tokens"])
        return lambda: F.embedding(tokens, weight)
    if op.startswith("cross_entropy"):
        logits, target = leaf(row["tokens"], row["vocab"], dtype=dtype), numbers(row["tokens"])
        return lambda: F.cross_entropy(logits.float() if "float" in op else logits, target)
    if op == "topk":
        scores = leaf(row["rows"], row["experts"], dtype=dtype)
        return lambda: torch.topk(scores, row["k"], -1)[0]
    if op == "bmm":
        left = leaf(row["batch"], row["seq"], row["head"], dtype=dtype)
        right = leaf(row["batch"], row["head"], row["seq"], dtype=dtype)
        return lambda: torch.bmm(left, right)
    return of_rows(row, dtype)


def without_workspaces(sizes, traced):
    """The first products of the measuring process opened cuBLAS; a later one does not."""
    return [s for s in sizes if s not in (33554432, 1048576) or s in traced]


class MeasuredOps(unittest.TestCase):
    def test_forward_and_backward_ask_as_on_the_gpu(self):
        for row in ROWS:
            if row["op"].startswith("conv") or row["op"] in ("LSTM", "GRU", "RNN"):
                continue
            with self.subTest(**{k: v for k, v in row.items() if k not in ("forward", "backward")}):
                with watched() as observer:
                    run = build(row)
                    asked = Asked(observer)
                    result = run()
                    forward = asked.sizes()
                    grad = torch.empty_like(result)
                    asked.sizes()
                    result.backward(grad)
                    backward = asked.sizes()
                self.assertEqual(forward, without_workspaces(row["forward"], forward))
                self.assertEqual(backward, without_workspaces(row["backward"], backward))

    def test_recurrent_layers_keep_and_take_what_cudnn_does(self):
        for row in ROWS:
            if row["op"] not in ("LSTM", "GRU", "RNN"):
                continue
            with self.subTest(**{k: v for k, v in row.items() if k not in ("forward", "backward")}):
                with watched() as observer, torch.device("meta"):
                    dtype = DTYPES[row["dtype"]]
                    layer = getattr(torch.nn, row["op"])(
                        row["input"], row["hidden"], row["layers"], dtype=dtype
                    )
                    x = torch.empty(row["seq"], row["batch"], row["input"], dtype=dtype)
                    asked = Asked(observer)
                    layer(x)
                    sizes = asked.sizes()
                # What is kept for backward is the last request, and exact.
                self.assertEqual(sizes[-1], row["forward"][-1])


def convolved(row):
    """What a convolution and its backward pass ask for."""
    dtype = DTYPES[row["dtype"]]
    last = row["format"] == "channels_last"
    layout = torch.channels_last if last else torch.contiguous_format
    with watched() as observer:
        weight = leaf(row["cout"], row["cin"] // row["groups"], row["k"], row["k"], dtype=dtype)
        weight = weight.detach().to(memory_format=layout).requires_grad_()
        x = leaf(row["n"], row["cin"], row["hw"], row["hw"], dtype=dtype)
        x = x.detach().to(memory_format=layout).requires_grad_()
        asked = Asked(observer)
        out = F.conv2d(x, weight, None, row["stride"], row["pad"], groups=row["groups"])
        forward = asked.sizes()
        grad = torch.empty_like(out)
        asked.sizes()
        out.backward(grad)
        return forward, asked.sizes()


class MeasuredConvolutions(unittest.TestCase):
    def test_most_workspaces_are_cudnns_own_to_the_byte(self):
        exact = close = total = 0
        for row in ROWS:
            if row["op"] != "conv2d":
                continue
            forward, _ = convolved(row)
            traced, measured = sum(forward), sum(row["forward"])
            total += 1
            exact += traced == measured
            close += abs(traced - measured) <= 0.02 * measured + (16 << 20)
        self.assertGreaterEqual(exact, 0.7 * total)
        self.assertEqual(close, total)

    def test_a_channel_for_itself_sums_its_gradient_in_parts_of_each_image(self):
        halves = [r for r in ROWS if r["op"] == "conv2d" and r["dtype"] != "fp32"]
        # cuDNN takes other kernels for very few channels.
        apart = [
            r for r in halves if r["format"] == "channels_last" and r["groups"] == r["cin"] > 3
        ]
        self.assertEqual(len(apart), 8)
        for row in apart:
            with self.subTest(**row):
                _, backward = convolved(row)
                self.assertEqual(backward, row["grad_input"] + row["grad_weight"])


# Results of meta kernels that are kept: the same form as the kernel's own, and only where that is sure.

ATEN = torch.ops.aten


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def form(result):
    if isinstance(result, torch.Tensor):
        return result.shape, result.stride(), result.dtype, result.untyped_storage().nbytes()
    return [form(one) for one in result] if isinstance(result, (tuple, list)) else result


class ImagesOfOnePixel(unittest.TestCase):
    """Pooled from channels-last images, they are contiguous as well; the kernels of the host lay out as CUDA does."""

    SHAPE, STRIDES = (6, 8, 1, 1), (8, 1, 8, 8)

    def image(self, device, dtype=torch.float32):
        return torch.empty_strided(self.SHAPE, self.STRIDES, dtype=dtype, device=device).zero_()

    def calls(self, device):
        x, mask = self.image(device), self.image(device, torch.bool)
        plain = torch.zeros(self.SHAPE, device=device)
        wide = torch.zeros(6, 8, 4, 4, device=device).to(memory_format=torch.channels_last)
        yield from ((func, (x,)) for func in (ATEN.relu.default, ATEN.sigmoid.default))
        yield from ((func, (x,)) for func in (ATEN.gelu.default, ATEN.silu.default))
        yield from ((func, (x,)) for func in (ATEN.hardswish.default, ATEN.leaky_relu.default))
        yield from ((func, (x,)) for func in (ATEN.clone.default, ATEN.relu_.default))
        yield from ((ATEN.add.Tensor, (x, other)) for other in (x, 1, plain, wide))
        yield from ((ATEN.mul.Tensor, (one, 2.0)) for one in (x, wide))
        yield ATEN.mul.Tensor, (wide, x)
        yield ATEN.silu_backward.default, (x, plain)
        yield ATEN.threshold_backward.default, (x, x, 0)
        yield ATEN.where.self, (mask, x, plain)
        yield ATEN.clamp.default, (x, 0, 1)
        yield ATEN.pow.Tensor_Scalar, (x, 3)

    def test_elementwise_results_lie_as_those_of_a_real_kernel(self):
        results = MetaResults()
        for (func, args), (_, real) in zip(self.calls("meta"), self.calls("cpu")):
            asked = [results.run(func, args, {}).stride() for _ in range(2)]
            self.assertEqual(asked, [func(*real).stride()] * 2, func)


class AlikeForAllShapes(unittest.TestCase):
    def calls(self, *shape):
        x, half = meta(*shape), meta(*shape, dtype=torch.bfloat16)
        whole, mask = meta(*shape, dtype=torch.int64), meta(*shape, dtype=torch.bool)
        yield from ((ATEN.mul.Tensor, (x, other)) for other in (x, half, whole, mask, 2, 2.5))
        yield from ((ATEN.div.Tensor, (whole, other)) for other in (whole, 2, half))
        yield from ((ATEN.lt.Scalar, (one, 0)) for one in (x, half, whole))
        yield from ((ATEN.where.self, (mask, *both)) for both in ((x, half), (whole, whole)))
        yield from ((ATEN.masked_fill.Scalar, (one, mask, -1e9)) for one in (x, half))
        yield from ((func, (whole,)) for func in (ATEN.exp.default, ATEN.abs.default))
        yield ATEN.bitwise_not.default, (mask,)

    def test_a_kernel_is_asked_once_and_its_result_has_the_shape_at_hand(self):
        results = MetaResults()
        shapes = [(4, 5), (1, 6), (7, 1), (3, 8)]
        with mock.patch.object(meta_results, "_ask", side_effect=meta_results._ask) as asked:
            found = [[form(results.run(*one, {})) for one in self.calls(*x)] for x in shapes]
        count = len(found[0])
        self.assertEqual(asked.call_count, count)
        for shape, forms in zip(shapes, found):
            self.assertEqual(forms, [form(func(*args)) for func, args in self.calls(*shape)])

    def test_which_number_is_given_does_not_matter_but_its_type_does(self):
        results = MetaResults()
        floor = {"rounding_mode": "floor"}
        calls = [(ATEN.clamp.default, (meta(4, 5), 0, width), {}) for width in (640, 480, 512)]
        calls += [(ATEN.mul.Tensor, (meta(3, dtype=torch.int64), by), {}) for by in (2, 3, 2.5)]
        calls += [(ATEN.div.Tensor_mode, (meta(n), n), floor) for n in (4, 5, 6)]
        with mock.patch.object(meta_results, "_ask", side_effect=meta_results._ask) as asked:
            found = [form(results.run(*call)) for call in calls]
        self.assertEqual(asked.call_count, 4)
        self.assertEqual(found, [form(func(*args, **named)) for func, args, named in calls])

    def test_a_copy_that_is_to_lie_otherwise_is_asked_for(self):
        results = MetaResults()
        for shape in ((2, 3, 4, 4), (2, 3, 5, 5)):
            for named in ({"dtype": torch.bfloat16}, {"memory_format": torch.channels_last}):
                found = results.run(ATEN._to_copy.default, (meta(*shape),), named)
                self.assertEqual(form(found), form(ATEN._to_copy.default(meta(*shape), **named)))

    def test_tensors_that_lie_or_measure_otherwise_are_asked_for(self):
        results = MetaResults()
        results.run(ATEN.mul.Tensor, (meta(4, 5), meta(4, 5)), {})
        results.run(ATEN.add.Tensor, (meta(4, 5), 1), {})
        turned, wide = meta(6, 3).t(), meta(3, 12)[:, ::2]
        for args in ((turned, turned), (meta(3, 6), meta(6)), (wide, wide), (meta(), meta())):
            self.assertEqual(
                form(results.run(ATEN.mul.Tensor, args, {})), form(ATEN.mul.Tensor(*args))
            )
        self.assertEqual(
            form(results.run(ATEN.add.Tensor, (turned, 1), {})), form(ATEN.add.Tensor(turned, 1))
        )
        self.assertEqual(form(results.run(ATEN.clone.default, (meta(4, 5),), {})), form(meta(4, 5)))
        source = meta(3, 6)
        copy = results.run(ATEN.clone.default, (source,), {})
        self.assertNotEqual(copy.untyped_storage()._cdata, source.untyped_storage()._cdata)


class Norms(unittest.TestCase):
    """Images of a new size need no new question, as long as they have as many channels and lie in one run."""

    def calls(self, *shape, layout=torch.contiguous_format, training=True):
        x, w = meta(*shape).contiguous(memory_format=layout), meta(shape[1])
        saved = w if training else meta(0)
        yield ATEN.native_batch_norm.default, (x, w, w, w, w, training, 0.1, 1e-5)
        for mask in ([True, True, True], [False, True, True]):
            args = (x, x, w, w, w, saved, saved, training, 1e-5, mask)
            yield ATEN.native_batch_norm_backward.default, args

    def asked(self, *all_calls):
        results, calls = MetaResults(), [call for calls in all_calls for call in calls]
        with mock.patch.object(meta_results, "_ask", side_effect=meta_results._ask) as asked:
            found = [form(results.run(*call, {})) for call in calls]
        self.assertEqual(found, [form(func(*args)) for func, args in calls])
        return asked.call_count

    def test_the_kernel_is_asked_once_for_as_many_channels(self):
        sizes = [(2, 8, 5, 6), (3, 8, 7, 4), (1, 8, 1, 2)]
        self.assertEqual(self.asked(*(self.calls(*size) for size in sizes)), 3)
        self.assertEqual(self.asked(self.calls(2, 8, 5, 6), self.calls(2, 4, 5, 6)), 6)
        self.assertEqual(self.asked(self.calls(2, 8, 5, 6), self.calls(2, 8, 30)), 6)

    def test_and_again_in_evaluation_and_where_images_lie_otherwise(self):
        read = self.calls(4, 8, 5, 6, training=False)
        self.assertEqual(self.asked(self.calls(2, 8, 5, 6), read), 6)
        others = [self.calls(n, 8, 5, 6, layout=torch.channels_last) for n in (2, 3)]
        self.assertEqual(self.asked(self.calls(2, 8, 5, 6), *others), 9)


class Kept(unittest.TestCase):
    def setUp(self):
        self.results = MetaResults()

    def twice(self, func, *args, **kwargs):
        first = self.results.run(func, args, kwargs)
        return first, self.results.run(func, args, kwargs)

    def test_a_kept_result_has_the_form_and_size_of_the_kernel_s(self):
        x, w = meta(4, 8, 16), meta(16, dtype=torch.bfloat16)
        for func, args in (
            (ATEN.mul.Tensor, (x, w)),
            (ATEN.add.Tensor, (x.transpose(1, 2), 1.5)),
            (ATEN.native_layer_norm.default, (x, [16], w.float(), w.float(), 1e-5)),
            (ATEN._foreach_mul.Scalar, ([x, w], 2.0)),
            (ATEN.mse_loss.default, (x, meta(4, 8, 16))),
        ):
            asked = func(*args) if func is not ATEN.mse_loss.default else None
            first, second = self.twice(func, *args)
            self.assertEqual(form(first), form(second), func)
            if asked is not None:
                self.assertEqual(form(asked), form(second), func)

    def test_each_result_has_memory_of_its_own(self):
        x = meta(4, 8)
        first, second = self.twice(ATEN.relu.default, x)
        storages = {t.untyped_storage()._cdata for t in (x, first, second)}
        self.assertEqual(len(storages), 3)

    def test_an_op_in_place_gives_what_it_was_given(self):
        x, other = meta(4, 8), meta(4, 8)
        self.twice(ATEN.add_.Tensor, x, other)
        self.assertIs(self.results.run(ATEN.add_.Tensor, (other, x), {}), other)
        self.assertEqual(self.twice(ATEN._foreach_add_.Scalar, [x, other], 1), (None, None))

    def test_a_kernel_that_writes_to_lists_is_asked_once_for_lists_of_one_kind(self):
        asked = []
        with mock.patch.object(meta_results, "_ask", lambda *given: asked.append(given)):
            for number in (1, 2, 3):
                lists = [meta(4, 8), meta(8)], [meta(4, 8), meta(8)]
                self.results.run(ATEN._foreach_add_.List, lists, {"alpha": number})
            self.assertEqual(len(asked), 1)
            for lists in (([meta(4, 8)], [meta(4, 8)]), ([meta(2, 8)], [meta(2, 8)])):
                self.results.run(ATEN._foreach_add_.List, lists, {"alpha": 1})
            self.assertEqual(len(asked), 3)
            for _ in range(2):
                self.results.run(ATEN._foreach_add_.Scalar, ([torch.zeros(2)], 1), {})
            self.assertEqual(len(asked), 5)
            # As Adam's steps, which differ from one to the next.
            for size in (0.1, 0.2):
                self.results.run(ATEN._foreach_mul_.ScalarList, ([meta(2)] * 2, [size, size]), {})
            self.assertEqual(len(asked), 6)

    def test_a_kernel_that_writes_to_lists_is_asked_about_what_comes_first(self):
        asked = []
        with mock.patch.object(meta_results, "_ask", lambda *given: asked.append(given)):
            lists = [[meta(4), meta(8), meta(9)] for _ in range(3)]
            self.results.run(ATEN._foreach_addcdiv_.ScalarList, (*lists, [1.0, 2.0, 3.0]), {})
            self.results.run(ATEN._foreach_add_.List, (lists[0], lists[1][:2]), {})
        self.assertEqual([len(one) for one in asked[0][1]], [1, 1, 1, 1])
        # Which is wrong, as the kernel will say.
        self.assertEqual([len(one) for one in asked[1][1]], [3, 2])

    def test_rows_at_places_are_kept_and_those_of_a_mask_are_asked_for(self):
        rows, places, mask = meta(9, 4), meta(5, dtype=torch.int64), meta(9, dtype=torch.bool)
        with mock.patch.object(meta_results, "_ask", side_effect=meta_results._ask) as asked:
            kept = [self.results.run(ATEN.index.Tensor, (rows, [places]), {}) for _ in range(3)]
            self.assertEqual(
                (asked.call_count, [form(one) for one in kept]), (1, [form(meta(5, 4))] * 3)
            )
            for _ in range(2):
                self.results.run(ATEN.index.Tensor, (rows, [mask]), {})
            self.assertEqual(asked.call_count, 3)

    def test_a_kernel_that_writes_to_lists_checks_them(self):
        with self.assertRaises(RuntimeError):
            self.results.run(ATEN._foreach_add_.List, ([meta(4)], [meta(4), meta(4)]), {})
        with self.assertRaises(RuntimeError):
            self.results.run(ATEN._foreach_add_.List, ([meta(4)], [meta(5)]), {})

    def test_a_view_is_one_of_its_own_argument(self):
        for x in (meta(4, 8), meta(4, 8)):
            for func, args in (
                (ATEN.view.default, (x, [32])),
                (ATEN._unsafe_view.default, (x, [32])),
            ):
                seen = self.results.run(func, args, {})
                self.assertEqual(seen.untyped_storage()._cdata, x.untyped_storage()._cdata, func)

    def test_an_op_that_changes_the_form_of_its_argument_does_so_each_time(self):
        for _ in range(2):
            x = meta(2, 3)
            self.results.run(ATEN.t_.default, (x,), {})
            self.assertEqual(x.shape, (3, 2))

    def test_types_of_numbers_and_the_default_type_count(self):
        x = meta(4, dtype=torch.int64)
        self.assertEqual(self.results.run(ATEN.mul.Tensor, (x, 1), {}).dtype, torch.int64)
        self.assertEqual(self.results.run(ATEN.mul.Tensor, (x, 1.0), {}).dtype, torch.float32)
        torch.set_default_dtype(torch.bfloat16)
        try:
            self.assertEqual(self.results.run(ATEN.mul.Tensor, (x, 1.0), {}).dtype, torch.bfloat16)
        finally:
            torch.set_default_dtype(torch.float32)


if __name__ == "__main__":
    unittest.main()
