"""Results of meta kernels that are kept: the same form as the kernel's own, and only where that is sure."""

import unittest
from unittest import mock

import torch

from plimsoll.tracing.results import meta_results
from plimsoll.tracing.results.meta_results import MetaResults

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
