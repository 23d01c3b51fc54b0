"""Optimizers: by name, and the one that a script's workload returns."""

import unittest

import torch

from tracing.test_command import Scripts, run
from tracing.watching import Asked, watched

from plimsoll_trace.gpu import H200
from plimsoll_trace.kernels.reductions import Shape, buffer_sizes
from plimsoll_trace.options import OPTIMIZERS
from plimsoll_trace.sources.hugging_face import dtype_keyword

# Larger than what bitsandbytes leaves in 32 bits.
WIDTH = 128
MODEL = """
import torch

def workload():
    model = torch.nn.Sequential(torch.nn.Linear(128, 128, bias=False), torch.nn.Linear(128, 128, bias=False))
    optimizer = %s
    return dict(model=model, batch=lambda: torch.randn(4, 128), loss=lambda m, b: m(b).sum()%s)
"""
TIED = """
import torch

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(100, 32)
        self.head = torch.nn.Linear(32, 100, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids))

def workload():
    with torch.device("cpu"):
        model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    model = model.to("cuda")
    assert model.head.weight is model.embed.weight
    return dict(
        model=model,
        batch=lambda: torch.zeros(2, 8, dtype=torch.long, device="cuda"),
        loss=lambda m, b: m(b).sum(),
        optimizer=optimizer,
    )
"""


def by_part(lines, letter):
    return sum(e[2] for e in lines if isinstance(e, list) and e[0] == "a" and e[5] == letter)


class Named(Scripts):
    def test_each_keeps_its_states(self):
        script = self.script(MODEL % ("None", ""))
        whole = 2 * WIDTH * WIDTH * 4
        one, two = whole, 2 * whole
        kept = {
            "adamw": two,
            "adam": two,
            "adamax": two,
            "nadam": two,
            "radam": two,
            "adadelta": two,
            "rmsprop": one,
            "adagrad": one,
            "sgd-momentum": one,
            "sgd": 0,
            # A counter for each parameter lies on the GPU.
            "adamw-fused": two + 8,
            "adam-fused": two + 8,
            # A row and a column for each.
            "adafactor": 2 * 2 * WIDTH * 4,
            # A byte, and a scale for each block of 256.
            "adamw-8bit": 2 * 2 * (WIDTH * WIDTH + WIDTH * WIDTH // 256 * 4),
        }
        self.assertEqual(sorted(kept), sorted(OPTIMIZERS))
        for name, size in kept.items():
            with self.subTest(name):
                status, lines = run("--script", script, "--steps", "2", "--optimizer", name)
                self.assertEqual(status, 0, lines[-1])
                self.assertEqual(by_part(lines, "o"), size)


class Returned(Scripts):
    def traced(self, optimizer):
        path = self.script(MODEL % (optimizer, ", optimizer=optimizer"))
        return run("--script", path, "--steps", "2", "--optimizer", "adamw")

    def test_itself_its_class_and_a_function_of_the_parameters_are_taken(self):
        whole = 2 * WIDTH * WIDTH * 4
        for given, states, name in (
            ("torch.optim.SGD(model.parameters(), momentum=0.9)", 1, "SGD"),
            ("torch.optim.Adam", 2, "Adam"),
            ("lambda parameters: torch.optim.RMSprop(parameters, centered=True)", 2, "RMSprop"),
        ):
            with self.subTest(given):
                status, lines = self.traced(given)
                self.assertEqual(status, 0, lines[-1])
                self.assertEqual(by_part(lines, "o"), states * whole)
                self.assertIn(
                    f"the optimizer is the one that workload() returns: {name}",
                    lines[-1]["notes"],
                )

    def test_what_cannot_be_stepped_is_told(self):
        for given, fact in (
            ("'adam'", "is a str"),
            ("lambda parameters: 3", "makes a int"),
            ("torch.optim.SGD(torch.nn.Linear(2, 2).parameters())", "none of the parameters"),
            ("torch.optim.LBFGS", "closure"),
        ):
            with self.subTest(given):
                status, [line] = self.traced(given)
                self.assertEqual((status, line["error"]["code"]), (2, "script-bad-optimizer"))
                self.assertIn(fact, line["error"]["fact"])

    def test_what_a_trace_does_not_use_is_named(self):
        status, lines = run(
            "--script", self.script(MODEL % ("3", ", scheduler=optimizer")), "--steps", "1"
        )
        self.assertEqual(status, 0)
        self.assertIn(
            "workload() returns scheduler, which a trace does not use", lines[-1]["notes"]
        )


class Moved(Scripts):
    def test_tied_weights_and_their_optimizer_stay_one_when_a_model_is_moved(self):
        status, lines = run("--script", self.script(TIED), "--steps", "2")
        self.assertEqual(status, 0, lines[-1])
        self.assertEqual(lines[-1]["parameters"], 100 * 32)
        self.assertEqual(by_part(lines, "o"), 100 * 32 * 4)
        self.assertFalse(torch.__future__.get_swap_module_params_on_conversion())


class Versions(unittest.TestCase):
    def test_the_type_of_the_weights_has_the_name_of_the_version(self):
        names = {
            "4.51.3": "torch_dtype",
            "4.55.4": "torch_dtype",
            "4.56.0": "dtype",
            "5.17.0": "dtype",
        }
        self.assertEqual({version: dtype_keyword(version) for version in names}, names)


# Autocast on the meta device: what is cast, in which order, and how long copies live.


def layer():
    with torch.device("meta"):
        return torch.nn.Linear(256, 512), torch.empty(64, 256)


class Autocast(unittest.TestCase):
    def test_bias_weight_and_input_are_cast_from_the_last_to_the_first(self):
        with watched() as observer:
            linear, x = layer()
            asked = Asked(observer)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                out = linear(x)
                sizes = asked.sizes()
        self.assertEqual(sizes, [512 * 2, 512 * 256 * 2, 64 * 256 * 2, 64 * 512 * 2])
        self.assertEqual(out.dtype, torch.bfloat16)

    def test_weights_are_cast_once_and_kept_until_the_region_ends(self):
        with watched() as observer:
            linear, x = layer()
            asked = Asked(observer)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                linear(x)
                asked.sizes()
                linear(x)
                again = asked.sizes()
                inside = len([e for e in observer.ledger.events if e[0] == "f"])
            outside = len([e for e in observer.ledger.events if e[0] == "f"])
        self.assertEqual(again, [64 * 256 * 2, 64 * 512 * 2])
        self.assertEqual(outside - inside, 2)

    def test_in_inference_mode_nothing_is_kept_without_gradients_it_is(self):
        for without, kept in ((torch.inference_mode, False), (torch.no_grad, True)):
            with watched() as observer:
                linear, x = layer()
                asked = Asked(observer)
                with without(), torch.autocast("cuda", dtype=torch.bfloat16):
                    linear(x)
                    first = asked.sizes()
                    linear(x)
                    self.assertEqual(asked.sizes(), first[2:] if kept else first)

    def test_sums_and_losses_stay_in_float32(self):
        with watched(), torch.autocast("cuda", dtype=torch.bfloat16):
            low = torch.empty(8, 8, dtype=torch.bfloat16, device="meta")
            self.assertEqual(low.softmax(-1).dtype, torch.float32)
            self.assertEqual(torch.nn.functional.layer_norm(low, (8,)).dtype, torch.float32)
            self.assertEqual(torch.cat([low, low.float()]).dtype, torch.float32)

    def test_in_inference_mode_what_a_composite_op_calls_is_cast_too(self):
        functions = torch.nn.functional
        for without in (torch.no_grad, torch.inference_mode):
            with watched(), without(), torch.autocast("cuda", dtype=torch.bfloat16):
                low = torch.empty(2, 8, 16, 16, dtype=torch.bfloat16, device="meta")
                labels = torch.empty(2, 16, 16, dtype=torch.int64, device="meta")
                doubled = functions.interpolate(low, scale_factor=2)
                self.assertEqual(doubled.dtype, torch.float32)
                smooth = functions.interpolate(low, size=(40, 40), mode="bilinear")
                self.assertEqual(smooth.dtype, torch.float32)
                self.assertEqual(functions.cross_entropy(low, labels).dtype, torch.float32)
                # An op with a rule of its own is cast once: what it calls is left alone.
                product = functions.linear(low.float(), low.new_empty(4, 16).float())
                self.assertEqual(product.dtype, torch.bfloat16)

    def test_a_region_for_meta_tensors_is_one_for_cuda(self):
        with watched():
            linear, x = layer()
            with (
                torch.autocast("cuda", dtype=torch.bfloat16),
                torch.autocast("meta", enabled=False),
            ):
                self.assertEqual(linear(x).dtype, torch.float32)


# Where autograd writes into memory it holds, although a dispatch mode watches.


class Accumulation(unittest.TestCase):
    def test_a_second_gradient_is_added_into_the_first(self):
        with watched() as observer:
            x = torch.empty(512, 512, device="meta", requires_grad=True)
            h = x * 2
            y = h.sin() + h.cos()
            grad = torch.empty_like(y)
            asked = Asked(observer)
            y.backward(grad)
            sizes = asked.sizes()
        # sin, neg and product; cos and product; then times two: the sum of both takes nothing.
        self.assertEqual(sizes, [1 << 20] * 6)

    def test_a_gradient_that_others_see_is_left_alone(self):
        with watched() as observer:
            x = torch.empty(512, 512, device="meta", requires_grad=True)
            w = torch.empty(512, 512, device="meta", requires_grad=True)
            y = (x + w) + x
            grad = torch.empty_like(y)
            asked = Asked(observer)
            y.backward(grad)
            sizes = asked.sizes()
        # The same gradient goes to both parameters: one copy for w, and a new sum for x.
        self.assertEqual(sizes, [1 << 20] * 2)

    def test_the_backward_thread_opens_its_own_cublas(self):
        with watched(libraries_open=False) as observer:
            x = torch.empty(64, 64, device="meta", requires_grad=True)
            asked = Asked(observer)
            y = x @ x
            forward = asked.sizes()
            y.backward(torch.empty_like(y))
            backward = asked.sizes()
        self.assertEqual(forward, [16384, 32 << 20])
        self.assertEqual(backward.count(32 << 20), 1)


# The buffer between blocks of a reduction, against sizes recorded on an H200.


def over_rows(rows, columns):
    return buffer_sizes(H200, Shape((rows, columns), (columns, 1), (True, False)), 4)


class Reductions(unittest.TestCase):
    def test_sums_over_rows_go_through_a_buffer(self):
        self.assertEqual(over_rows(16384, 768), (100663296, 24))
        self.assertEqual(over_rows(16384, 3072), (138412032, 96))
        self.assertEqual(over_rows(16384, 2304), (139198464, 72))
        self.assertEqual(over_rows(2048, 32000), (147456000, 1000))

    def test_few_rows_need_none(self):
        self.assertIsNone(over_rows(64, 4096))

    def test_sums_over_pixels_keep_one_value_a_block(self):
        shape = Shape((64, 64, 224 * 224), (64 * 224 * 224, 224 * 224, 1), (True, False, True))
        self.assertEqual(buffer_sizes(H200, shape, 4), (6400, 256))

    def test_dimensions_that_lie_in_one_run_are_one(self):
        shape = Shape((4, 8, 16), (128, 16, 1), (True, True, False))
        self.assertEqual((shape.sizes, shape.reduce_dims), ([32, 16], 1))

    def test_spreads_keep_four_numbers_of_each_part(self):
        # Of an autoencoder's 2048 samples: the result, the buffer, its semaphores.
        for spread in (torch.std, torch.var):
            with self.subTest(spread=spread.__name__), watched() as observer:
                samples = torch.empty(2048, 4096, device="meta")
                asked = Asked(observer)
                spread(samples, 0)
                self.assertEqual(asked.sizes(), [16384, 268435456, 128])

    def test_all_that_reduce_go_through_a_buffer(self):
        part = 268435456 // 16
        for reduced, kept, results in (
            (lambda x: x.amax(0), 4, [16384]),
            (lambda x: x.argmin(0), 16, [32768]),
            (lambda x: x.max(0), 16, [16384, 32768]),
            (lambda x: torch.std_mean(x, 0), 16, [16384, 16384]),
        ):
            with watched() as observer:
                samples = torch.empty(2048, 4096, device="meta")
                asked = Asked(observer)
                reduced(samples)
                self.assertEqual(asked.sizes(), [*results, kept * part, 128])

    def test_a_reduction_of_everything_is_one_of_all_dimensions(self):
        for reduced in (torch.var, torch.max, torch.argmax, torch.any):
            with self.subTest(reduced=reduced.__name__), watched() as observer:
                samples = torch.empty(2048, 4096, device="meta")
                asked = Asked(observer)
                reduced(samples)
                self.assertEqual(len(asked.sizes()), 3)

    def test_norms_of_many_tensors_are_summed_in_parts(self):
        # As clip_grad_norm_ asked for on an H200: a CodeGen of 101 parameters, an inpainting network of 60.
        for shapes, parts in (
            ([(51200, 1024)] + [(1024,)] * 100, 323200),
            ([(384, 192, 3, 3)] + [(384,)] * 59, 2640),
        ):
            with watched() as observer:
                gradients = [torch.empty(shape, device="meta") for shape in shapes]
                asked = Asked(observer)
                norms = torch._foreach_norm(gradients, 2.0)
                self.assertEqual(asked.sizes(), [parts] + [4] * len(norms))
                kinds = [event[0] for event in observer.ledger.events]
                self.assertEqual((kinds[-1], kinds.count("f")), ("f", 1))
                # Other orders, and tensors of several types, are worked out one by one.
                torch._foreach_norm(gradients, 3.0)
                self.assertNotIn(parts, asked.sizes())
                torch._foreach_norm([*gradients, gradients[0].half()], 2.0)
                self.assertNotIn(parts, asked.sizes())


if __name__ == "__main__":
    unittest.main()
