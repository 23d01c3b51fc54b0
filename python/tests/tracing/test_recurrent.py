"""Recurrent layers against what they asked a real H200's allocator for, in all directions and types."""

import unittest

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tracing.watching import Asked, measured, watched

from plimsoll_trace.kernels.recurrent import Layer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


ROWS = measured("recurrent")


def asked(row):
    dtype = DTYPES[row["dtype"]]
    with watched() as observer, torch.device("meta"):
        layer = getattr(torch.nn, row["op"])(
            row["input"],
            row["hidden"],
            row["layers"],
            batch_first=True,
            dropout=row["dropout"],
            bidirectional=row["bidirectional"],
            dtype=dtype,
        ).train(row["train"])
        x = torch.empty(row["batch"], row["seq"], row["input"], dtype=dtype, requires_grad=True)
        # They were measured after a warm-up, which left the state of cuDNN's dropout behind.
        torch.nn.GRU(1, 1, 2, dropout=0.1)(torch.empty(1, 1, 1))
        sizes = Asked(observer)
        with torch.set_grad_enabled(row["train"]):
            out, _ = layer(x)
        forward = sizes.sizes()
        if not row["train"]:
            return forward, []
        grad = torch.empty_like(out)
        sizes.sizes()
        out.backward(grad)
        return forward, sizes.sizes()


def asked_with_projection(row):
    """What the layer works in, and what it keeps for backward."""
    with watched() as observer, torch.device("meta"):
        dtype = DTYPES[row["dtype"]]
        layer = torch.nn.LSTM(
            row["input"],
            row["hidden"],
            row["layers"],
            dropout=row["dropout"],
            bidirectional=row["bidirectional"],
            proj_size=row["projected"],
            dtype=dtype,
        ).train(row["train"])
        x = torch.empty(row["seq"], row["batch"], row["input"], dtype=dtype)
        sizes = Asked(observer)
        with torch.set_grad_enabled(row["train"]):
            layer(x)
        asked = sizes.sizes()
    return (asked[-2], asked[-1]) if row["train"] else (asked[-1], 0)


# By mode, directions, layers and inputs of a layer of 128 states: rows that small states, usual ones and packed
# sequences ask for, and projected ones of an LSTM; without training, then with it and dropout.
UNITS = {
    (0, False, 1, 32): (1879, 634, 21, 4131, 1355, 21),
    (0, False, 3, 32): (1887, 640, 23, 4143, 1129, 43),
    (0, False, 3, 256): (2412, 1165, 23, 5718, 2479, 43),
    (0, True, 1, 32): (3685, 2485, 126, 4964, 2710, 126),
    (0, True, 3, 32): (3705, 2505, 138, 4992, 3780, 138),
    (0, True, 3, 256): (4230, 3030, 138, 8142, 6030, 138),
    (2, False, 1, 32): (6383, 1409, 86, 1558, 6383, 1409, 86, 1558),
    (2, False, 3, 32): (6399, 1429, 98, 1576, 6399, 1729, 118, 1876),
    (2, False, 3, 256): (6924, 1954, 98, 2101, 6924, 2497, 118, 2459),
    (2, True, 1, 32): (9093, 4299, 256, 4597, 9093, 4299, 256, 4597),
    (2, True, 3, 32): (9129, 4347, 288, 4641, 9129, 4347, 288, 4641),
    (2, True, 3, 256): (9654, 4872, 288, 5166, 9954, 6072, 288, 6066),
    (3, False, 1, 32): (4879, 1148, 63, 5631, 1355, 63),
    (3, False, 3, 32): (4887, 1158, 69, 5643, 1458, 89),
    (3, False, 3, 256): (5412, 1683, 69, 7218, 2479, 89),
    (3, True, 1, 32): (7285, 3689, 210, 7285, 3689, 210),
    (3, True, 3, 32): (7305, 3717, 230, 7305, 3792, 230),
    (3, True, 3, 256): (7830, 4242, 230, 9642, 6042, 230),
}


def units(mode, both, layers, inputs):
    source = torch.empty(300, 16, inputs, device="meta")
    packed = [16] * 10 + [8] * 20
    rows = torch.empty(sum(packed), inputs, device="meta")
    found = []
    for train in (False, True):
        made = [
            Layer(
                (
                    one,
                    [],
                    4,
                    None,
                    None,
                    None,
                    mode,
                    128,
                    projected,
                    layers,
                    False,
                    train / 2,
                    train,
                    both,
                    sizes,
                )
            )
            for one, projected, sizes in ((source, 0, []), (rows, 0, packed), (source, 64, []))
        ]
        found += [made[0]._small_units(), made[0]._units(), made[1]._packed_units()]
        found += [made[2]._units()] if mode == 2 else []
    return tuple(found)


class Units(unittest.TestCase):
    def test_rows_of_each_kind_of_layer_are_those_that_were_fitted(self):
        for layer, rows in UNITS.items():
            self.assertEqual(units(*layer), rows, layer)
            if layer[0] == 0:
                # Both activations of a plain layer.
                self.assertEqual(units(1, *layer[1:]), rows, layer)


class Ops(TorchDispatchMode):
    """Counts what is run."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **kwargs or {})


class Recurrent(unittest.TestCase):
    def test_they_ask_for_the_same_in_the_same_order_but_for_some_workspaces(self):
        exact = 0
        for row in ROWS:
            with self.subTest(**{k: v for k, v in row.items() if k not in ("forward", "backward")}):
                forward, backward = asked(row)
                exact += (forward, backward) == (row["forward"], row["backward"])
                self.assertEqual(len(forward), len(row["forward"]))
                self.assertEqual(len(backward), len(row["backward"]))
                for mine, theirs in zip(forward + backward, row["forward"] + row["backward"]):
                    self.assertLess(abs(mine - theirs), 0.04 * theirs + 1)
        self.assertGreater(exact, 0.8 * len(ROWS))

    def test_projected_states_are_kept_before_and_after_the_projection(self):
        exact, rows = 0, measured("projected")
        for row in rows:
            with self.subTest(**row):
                workspace, reserve = asked_with_projection(row)
                self.assertEqual(reserve, row["reserve"])
                exact += workspace == row["workspace"]
                self.assertLess(abs(workspace / row["workspace"] - 1), 0.02)
        self.assertGreater(exact, 0.9 * len(rows))

    def test_where_only_the_last_states_are_used_the_gradient_of_the_output_is_zeros(self):
        # As recorded on an H200, in a translator whose decoder begins with the states of its encoder.
        with watched() as observer, torch.device("meta"):
            encoder = torch.nn.LSTM(512, 1024, 2, dropout=0.5)
            x = torch.empty(28, 128, 512, requires_grad=True)
            _, states = encoder(x)
            grads = [torch.empty_like(state) for state in states]
            sizes = Asked(observer)
            torch.autograd.backward(states, grads)
            output, state, workspace = 14680064, 1048576, 181404928
            expected = [output, 7340032, state, state, workspace, 58785792, workspace]
            self.assertEqual(sizes.sizes()[: len(expected)], expected)

    def test_a_single_step_in_training_takes_what_backward_needs(self):
        # As recorded on an H200, in the decoder of a translator.
        for batch, workspace in {128: 89654528, 114: 88106144}.items():
            with watched() as observer, torch.device("meta"):
                decoder = torch.nn.LSTM(512, 1024, 2, dropout=0.5)
                x = torch.empty(1, batch, 512)
                sizes = Asked(observer)
                decoder(x)
                self.assertIn(workspace, sizes.sizes())

    def test_kernels_for_small_states_run_up_to_other_sizes_forward_than_backward(self):
        # As recorded on an H200, in a forecaster under autocast: its encoder, then its decoder.
        for steps, workspaces in {168: (312232192, 92276992), 24: (52709632, 21498112)}.items():
            with watched() as observer, torch.device("meta"):
                layer = torch.nn.LSTM(160, 160, batch_first=True)
                x = torch.empty(256, steps, 160, requires_grad=True)
                states = tuple(torch.empty(1, 256, 160) for _ in range(2))
                sizes = Asked(observer)
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    out, _ = layer(x, states)
                self.assertIn(workspaces[0], sizes.sizes())
                out.sum().backward()
                self.assertEqual(sizes.sizes().count(workspaces[1]), 2)

    def test_kernels_for_small_states_in_float32(self):
        # As recorded on an H200, in the evaluation of that forecaster.
        for steps, workspace in {168: 1222938880, 24: 184848640}.items():
            with watched() as observer, torch.device("meta"), torch.no_grad():
                layer = torch.nn.LSTM(160, 160, batch_first=True).eval()
                sizes = Asked(observer)
                layer(torch.empty(512, steps, 160))
                self.assertIn(workspace, sizes.sizes())

    def test_a_cell_keeps_its_gates_and_a_workspace_until_backward(self):
        # As recorded on an H200, in a program with such a cell.
        gates, state, keeps, sums = 56401920, 18800640, 94003200, [3072, 112852992, 24]
        with watched() as observer, torch.device("meta"):
            cell = torch.nn.GRUCell(256, 256)
            x, h = (torch.empty(18360, 256, requires_grad=True) for _ in range(2))
            sizes = Asked(observer)
            out = cell(x, h)
            self.assertEqual(sizes.sizes(), [gates, gates, keeps, state])
            grad = torch.empty_like(out)
            sizes.sizes()
            out.backward(grad)
            self.assertEqual(sizes.sizes()[:9], [gates, gates, state, *sums, *sums])

    def test_a_cell_of_an_lstm_and_one_in_inference_mode(self):
        # What the kernel asks for is known from its code; not recorded.
        with watched() as observer, torch.device("meta"):
            cell = torch.nn.LSTMCell(8, 16, bias=False)
            x, h, c = (torch.empty(32, n, requires_grad=True) for n in (8, 16, 16))
            sizes = Asked(observer)
            _, state = cell(x, (h, c))
            self.assertEqual(sizes.sizes(), [8192, 8192, 8192, 2048, 2048])
            state.sum().backward()
            self.assertEqual((c.grad.shape, x.grad.shape), (c.shape, x.shape))
            gru = torch.nn.GRUCell(8, 16)
            sizes.sizes()
            with torch.inference_mode():
                self.assertEqual(gru(torch.empty(32, 8)).shape, (32, 16))
            self.assertIn(32 * 16 * 5 * 4, sizes.sizes())

    def test_the_first_that_drops_anything_leaves_random_state_for_all(self):
        # As recorded on an H200: a number of 8 bytes, then the state, which stays.
        with watched() as observer, torch.device("meta"):
            layer = torch.nn.GRU(300, 512, 3, batch_first=True, bidirectional=True, dropout=0.2)
            x = torch.empty(64, 256, 300)
            sizes = Asked(observer)
            layer(x)
            self.assertEqual(sizes.sizes()[1:3], [8, 6488064])
            layer(x)
            self.assertNotIn(6488064, sizes.sizes())

    def test_after_backward_the_cast_weights_go_last(self):
        # As recorded on an H200: the input, the output, what was kept for backward, then the weights.
        with watched() as observer, torch.device("meta"):
            layer = torch.nn.GRU(8, 16)
            x = torch.empty(32, 4, 8, requires_grad=True)
            begin = len(observer.ledger.events)
            with torch.autocast("cuda"):
                out, _ = layer(x)
            asked = {e[1]: e[2] for e in observer.ledger.events[begin:] if e[0] == "a"}
            loss = out.sum()
            del out
            begin = len(observer.ledger.events)
            loss.backward()
            freed = (e[1] for e in observer.ledger.events[begin:] if e[0] == "f")
            freed = [asked[ident] for ident in freed if ident in asked]
            weights = sum(w.numel() for w in layer.parameters()) * 2
            kept = 32 * 4 * 16 * 6 * 2 + 256
            self.assertEqual(freed[-2:], [kept, weights])

    def test_the_gradient_of_packing_takes_as_many_ops_for_long_sequences_as_for_short_ones(self):
        counts = []
        for steps in (4, 400):
            with watched() as observer, torch.device("meta"):
                x = torch.empty(steps, 3, 8, requires_grad=True)
                lengths = torch.tensor([steps, steps - 1, steps - 2], device="cpu")
                rows = torch.nn.utils.rnn.pack_padded_sequence(x, lengths).data
                grad = torch.empty_like(rows)
                sizes, ops = Asked(observer), Ops()
                with ops:
                    rows.backward(grad)
                # Zeros of the whole, into which the rows are copied.
                self.assertEqual(sizes.sizes(), [steps * 3 * 8 * 4])
                self.assertEqual(x.grad.shape, x.shape)
                counts.append(ops.count)
        self.assertEqual(counts[0], counts[1])

    def test_the_gradient_of_packing_has_a_gradient(self):
        with watched(), torch.device("meta"):
            x = torch.empty(2, 4, 8, requires_grad=True)
            lengths = torch.tensor([4, 2], device="cpu")
            rows = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data
            (grad,) = torch.autograd.grad(rows.square().sum(), x, create_graph=True)
            grad.sum().backward()
            self.assertEqual(x.grad.shape, x.shape)

    def test_autocast_runs_them_in_float16_whatever_it_is_set_to(self):
        with watched(), torch.device("meta"), torch.autocast("cuda", dtype=torch.bfloat16):
            self.assertEqual(torch.nn.GRU(8, 8)(torch.empty(2, 3, 8))[0].dtype, torch.float16)
