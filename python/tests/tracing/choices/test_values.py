"""Copies of tensors take what is known of them along, in memory of their own."""

import copy
import io
import unittest
from types import SimpleNamespace
from unittest import mock

import torch
from torch.nn.functional import one_hot

from tracing import watching
from tracing.watching import rows_of, watched

from plimsoll_trace import ledger as kinds
from plimsoll_trace import small_values
from plimsoll_trace.assumed.chosen import DRAWN_NOTE, EVEN_NOTE, NOTE
from plimsoll_trace.assumed.likely_values import spread
from plimsoll_trace.known_values import computing, later
from plimsoll_trace.programs import watch
from plimsoll_trace.programs.devices.pretended import deep_copy
from plimsoll_trace.programs.values import PlausibleScalars
from plimsoll_trace.scalars import UNKNOWN


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
            before = watch.values_before(optimizer)
        self.assertEqual(added.call_count, 1)
        self.assertEqual([one is parameters[0] for one, _ in before], [True, False])
        for number, (parameter, value) in zip((0, 2), before):
            self.assertEqual(value.tolist(), (torch.full((2,), float(number)) + 1e-4).tolist())
            self.assertEqual(copy.copy(small_values.value_of(parameter)).tolist(), [number] * 2)
        self.assertEqual(watch.values_before(torch.optim.SGD(model.parameters(), 0.1)), [])


# Rows that drawn numbers choose: the interval allows for some less and some more, not for none and for all.

SAMPLES, WORDS, WIDTH = 32, 1024, 64


def shares(mask_of):
    """By which parts of the chosen rows there may be less, and more, and the notes."""
    with watching.watched() as observer:
        observer.category = kinds.ACTIVATION
        rows = torch.empty(SAMPLES, WORDS, WIDTH, device="meta")
        mask = mask_of()
        chosen = rows[mask]
        made = [chosen + 1 for _ in range(8)]
        ledger = observer.ledger
        size = (1 + len(made)) * chosen.numel() * chosen.element_size()
        return ledger.loose_at_peak / size, ledger.larger_at_most / size, observer.notes


def hidden(rate=0.2):
    return torch.rand(SAMPLES, WORDS, device="meta") < rate


class Drawn(unittest.TestCase):
    def test_of_many_draws_about_as_many_hit_as_is_likely(self):
        def words():
            return torch.arange(SAMPLES * WORDS, device="meta").view(SAMPLES, WORDS)

        for mask_of in (
            hidden,
            lambda: hidden() & (words() % 7 > 1),
            lambda: hidden() & (torch.rand(SAMPLES, WORDS, device="meta") < 0.8),
            lambda: words().masked_fill(~hidden(), -100) != -100,
        ):
            less, more, notes = shares(mask_of)
            # About 5,000 of 6,500 rows: four standard deviations.
            self.assertTrue(0.04 < less < 0.07, less)
            self.assertTrue(0.04 < more < 0.07, more)
            self.assertEqual(notes, {DRAWN_NOTE})

    def test_a_rate_that_is_drawn_for_each_sample_decides_for_all_of_it(self):
        def mask_of():
            rates = torch.rand(SAMPLES, 1, device="meta") * 0.9 + 0.05
            return torch.rand(SAMPLES, WORDS, device="meta") < rates

        less, more, notes = shares(mask_of)
        # Half of 32 samples, each as one.
        self.assertTrue(0.7 < less < 1.01, less)
        self.assertGreater(more, 0.7)
        self.assertEqual(notes, {DRAWN_NOTE})

    def test_what_else_decides_may_choose_none(self):
        less, _, notes = shares(lambda: hidden() & (torch.randn(SAMPLES, WORDS, device="meta") > 0))
        self.assertEqual((less, notes), (1, {NOTE}))

    def test_few_draws_may_all_miss(self):
        with watching.watched():
            self.assertEqual(spread(hidden(rate=0.0002), 6), 1)
            self.assertIsNone(spread(torch.randn(SAMPLES, WORDS, device="meta") > 0, 6))


# Values that are taken for granted of tensors in host memory: they end with the tensor.

ATEN = torch.ops.aten


def another_at(address):
    """A tensor whose storage got the address of one that is gone."""
    return SimpleNamespace(untyped_storage=lambda: SimpleNamespace(_cdata=address))


class HostMemory(unittest.TestCase):
    def after_its_end(self, scalars, tensor):
        address = tensor.untyped_storage()._cdata
        self.assertIsNot(scalars.known(another_at(address)), UNKNOWN)
        del tensor
        return address

    def test_numbers_that_were_drawn_are_forgotten_with_their_tensor(self):
        scalars = PlausibleScalars()
        drawn = [torch.randint(0, 5, (10,))]
        scalars.notice(ATEN.randint.low, (0, 5, [10]), drawn[0])
        address = self.after_its_end(scalars, drawn.pop())
        self.assertIs(scalars.known(another_at(address)), UNKNOWN)
        self.assertFalse(scalars._is_place(another_at(address)))

    def test_what_is_taken_for_finite_is_forgotten_with_its_tensor(self):
        scalars = PlausibleScalars()
        finite = [torch.isfinite(torch.ones(3))]
        scalars.assume(finite[0], True)
        address = self.after_its_end(scalars, finite.pop())
        self.assertIs(scalars.known(another_at(address)), UNKNOWN)


# Loops that wait for values which a trace does not have: they end.


def drawn():
    return torch.rand(5, device="meta") > 2


class Waiting(unittest.TestCase):
    def test_a_loop_that_waits_for_all_ends(self):
        with watched():
            done = torch.zeros(5, dtype=torch.bool, device="meta")
            while not done.all():
                found = drawn()
                if found.any():
                    done = done | found

    def test_a_loop_that_is_left_from_inside_ends(self):
        with watched():
            turns = 0
            while True:
                turns += 1
                if drawn().any():
                    break
            self.assertGreater(turns, 10)

    def test_two_conditions_of_one_loop_do_not_keep_it_running_in_turn(self):
        with watched():
            done = torch.zeros(5, dtype=torch.bool, device="meta")
            while not done.all() or not drawn().any():
                pass

    def test_samples_of_a_distribution_that_rejects_some_are_drawn(self):
        with watched():
            angles = torch.zeros(32, 16, device="meta")
            sample = torch.distributions.VonMises(angles, angles + 1).sample()
            self.assertEqual(sample.shape, (32, 16))

    def test_a_question_outside_of_a_condition_gets_the_same_answer_each_time(self):
        with watched():
            answers = {bool(drawn().any()) for _ in range(500)}
            self.assertEqual(answers, {False})

    def test_values_in_host_memory_are_waited_for_as_they_are(self):
        with watched():
            count = torch.zeros((), device="cpu")
            while not (count >= 500).all():
                count += 1
            self.assertEqual(count.item(), 500)


# Whole numbers that are made without values and written part by part, and rows of graphs that are chosen by them.

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


# Small parameters that decide how much is kept, before and after the first steps.

ROWS, TRAINED_WIDTH, MOST, RAMP = 64, 512, 1024, 32
# A span that is learned: of 1,024 places so many are kept as it says, and 32 more.
SPAN = f"""
import math

import torch
from torch import nn


class Spanned(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn({TRAINED_WIDTH}, {MOST}))
        self.span = nn.Parameter(torch.zeros(4, 1, 1) + {{first}})

    def size(self):
        return min({MOST}, math.ceil(self.span.max().item() * {MOST}) // 16 * 16 + {RAMP})

    def forward(self, x):
        return (x @ self.weight[:, : self.size()]).sigmoid() * self.span.mean()


model = Spanned().cuda()
optimizer = torch.optim.{{optimizer}}(model.parameters(), lr=1e-3)
for step in range(4):
    optimizer.zero_grad()
    before = model.span.detach().clone()
    model(torch.randn({ROWS}, {TRAINED_WIDTH}, device="cuda")).sum().backward()
    optimizer.step()
    if (model.span.detach() - before).abs().max().item() == 0:
        raise ValueError("no step changes anything")
    model.span.data.clamp_(0, 1)
print("spans", model.size())
"""


class LearnedSpans(unittest.TestCase):
    def sizes(self, first, optimizer):
        rows = rows_of(self, SPAN.format(first=first, optimizer=optimizer))
        return [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]

    def test_a_span_stays_about_what_it_was_initialised_with(self):
        for first, kept, optimizer in ((0, RAMP, "Adagrad"), (0.25, 256 + RAMP, "AdamW")):
            with self.subTest(first=first):
                sizes = self.sizes(first, optimizer)
                self.assertGreaterEqual(sizes.count(ROWS * kept * 4), 4)
                self.assertNotIn(ROWS * MOST * 4, sizes)


# Many known values: they are computed when they are read, and are what they would have been at once.

MANY = 100_000


class Later(unittest.TestCase):
    def computed(self):
        """The ops that are run on values from now on."""
        ops = []
        run = computing.run

        def seen(func, args, kwargs):
            ops.append(func.name())
            return run(func, args, kwargs)

        patched = mock.patch.object(computing, "run", seen)
        patched.start()
        self.addCleanup(patched.stop)
        return ops

    def test_what_nobody_reads_is_not_computed(self):
        ops = self.computed()
        with watching.watched():
            twice = torch.arange(MANY, device="meta") * 2
            self.assertTrue(small_values.is_known(twice))
            self.assertEqual(ops, [])
            self.assertEqual(twice[-1].item(), 2 * (MANY - 1))
            self.assertEqual(ops.count("aten::mul.Tensor"), 1)
            self.assertEqual(twice[5].item(), 10)
            self.assertEqual(ops.count("aten::mul.Tensor"), 1)

    def test_a_tensor_that_is_saved_or_copied_takes_its_value_along(self):
        with watching.watched():
            twice = torch.arange(MANY, device="meta") * 2
            held = twice.__dict__["_plimsoll_value"]
            copied = copy.deepcopy(held)
        file = io.BytesIO()
        torch.save(held, file)
        file.seek(0)
        for value in (copied, torch.load(file, weights_only=True)):
            self.assertEqual(value.tolist(), list(range(0, 2 * MANY, 2)))

    def test_one_that_cannot_be_computed_is_not_known_where_it_was_copied_to(self):
        def fails(*_):
            raise RuntimeError

        computation = later.Computation(fails, [], {}, 1)
        tensor = torch.empty(3, device="meta")
        small_values.remember(tensor, copy.deepcopy(later.Later(computation, 0, tensor.shape)))
        self.assertIsNone(small_values.likely_value_of(tensor))

    def test_values_are_those_of_the_time_they_were_asked_for(self):
        with watching.watched():
            places = torch.arange(MANY, device="meta")
            view = places.view(10, -1)
            before = places + 1
            twice = view * 2
            places.mul_(0)
            self.assertEqual(before[7].item(), 8)
            self.assertEqual(twice[0, 7].item(), 14)
            self.assertEqual(places[7].item(), 0)
            self.assertEqual(view[0, 7].item(), 0)

    def test_where_values_lie_is_asked_once_however_often_others_are_written(self):
        with watching.watched():
            waits = torch.arange(MANY, device="meta") + torch.ones(1, device="meta")
            counts = torch.zeros(4, dtype=torch.int64, device="meta")
            counts.add_(1)
            with mock.patch.object(later, "_address", wraps=later._address) as asked:
                for _ in range(5):
                    counts.add_(1)
            self.assertEqual(counts.tolist(), [6] * 4)
            # Of what is written alone.
            self.assertEqual(asked.call_count, 5)
            self.assertEqual(waits[3].item(), 4)

    def test_nothing_is_looked_for_where_nothing_is_known_of_what_is_written(self):
        with watching.watched():
            data = torch.empty(100, 100, device="meta")
            with mock.patch.object(small_values, "_sharing") as asked:
                data.add_(1)
            asked.assert_not_called()

    def test_what_waits_for_a_value_that_is_computed_and_then_written_keeps_the_old_one(self):
        with watching.watched():
            first = torch.arange(MANY, device="meta") + 1
            second = first * 3
            self.assertEqual(first[1].item(), 2)
            first.fill_(0)
            self.assertEqual(second[1].item(), 6)
            self.assertEqual(first[1].item(), 0)

    def test_long_chains_are_computed_on_the_way(self):
        with watching.watched():
            value = torch.zeros(MANY, dtype=torch.int64, device="meta")
            for _ in range(300):
                value = value + 1
            self.assertEqual(value[3].item(), 300)

    def test_several_results_of_one_op(self):
        with watching.watched():
            rows = torch.arange(2 * MANY, device="meta").view(2, -1)
            most, places = rows.max(dim=0)
            self.assertEqual((most[3].item(), places[3].item()), (MANY + 3, 1))
            one, other = rows.unbind(0)
            self.assertEqual((one[2].item(), other[2].item()), (2, MANY + 2))

    def test_boxes_hold_the_same_however_they_lie_in_memory(self):
        def corners(boxes, more):
            grown = torch.cat([boxes, boxes + more])
            width = grown[:, 2:] - grown[:, :2]
            moved = torch.stack([grown[:, 0], width[:, 1]], 1).reshape(-1, 4)
            return moved.view(2, -1).sum(1), grown.t().reshape(-1)[5], moved.flatten()[-3:]

        def start(device):
            return torch.arange(8 * MANY, device=device).view(-1, 4).remainder(1000).float()

        expected = [one.tolist() for one in corners(start("cpu"), 0.5)]
        with watching.watched():
            found = corners(start("meta"), 0.5)
            self.assertEqual([small_values.value_of(one).tolist() for one in found], expected)


# Numbers that lie between 0 and 1 are read as such.

PROGRAM = """
import math, torch

model = torch.nn.Linear(64, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
right = []
for step in range(4):
    x, y = torch.randn(8192, 64).cuda(), torch.randint(10, (8192,), device="cuda")
    clicks = (torch.rand(8192) < 0.3).float().cuda()
    outputs = model(x)
    torch.nn.functional.cross_entropy(outputs, y).backward()
    optimizer.step()
    hits = (outputs.argmax(1) == y).float().mean()
    right.append(hits.item())
    sure = outputs.softmax(1).max(1).values.mean()
    for share in (hits, 1 - hits, clicks.mean(), sure, outputs.sigmoid().mean(), outputs.sigmoid()[0, 0]):
        assert math.log(share.item()) < 0 and math.log(1 - share.item()) < 0, share.item()
# Numbers that are not laid out plainly are not looked at.
links = torch.sparse_coo_tensor(torch.zeros(2, 9000, dtype=torch.long), torch.rand(9000), (40, 40)).cuda()
torch.sparse.mm(links, torch.ones(40, 8, device="cuda"))
torch.rand(9000).to(torch.float8_e4m3fn).cuda()
# Written to, it is any number again, and so is what was never between 0 and 1.
clicks.mul_(100)
assert clicks.mean().item() > 1 and outputs.mean().item() > 1
assert right == sorted(right) and right[0] < right[-1]
"""


class Shares(unittest.TestCase):
    def test_probabilities_labels_and_parts_of_a_count_lie_between_0_and_1(self):
        rows_of(self, PROGRAM)


# How many rows a choice among several gets where only the data know it: experts, classes, buckets.

EVEN_CHOICES_ROWS, EXPERTS, EVEN_CHOICES_WIDTH, INNER = 4096, 8, 64, 256
# Each of 4,096 tokens goes to two of eight experts, which keep what backward needs.
MIXTURE = f"""
import torch
from torch import nn

x = torch.randn({EVEN_CHOICES_ROWS}, {EVEN_CHOICES_WIDTH}, device="cuda")
router = nn.Linear({EVEN_CHOICES_WIDTH}, {EXPERTS}).cuda()
experts = nn.ModuleList(nn.Linear({EVEN_CHOICES_WIDTH}, {INNER}) for _ in range({EXPERTS})).cuda()
for step in range(3):
    weight, chosen = router(x).softmax(-1).topk(2, dim=-1)
    total = 0
    for number, expert in enumerate(experts):
        row, slot = torch.where(chosen == number)
        if row.numel() == 0:
            continue
        total = total + (expert(x[row]).sigmoid() * weight[row, slot, None]).sum()
    total.backward()
"""


class Mixture(unittest.TestCase):
    def test_each_expert_gets_its_share_and_may_get_none_or_all(self):
        rows = rows_of(self, MIXTURE)
        sizes = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
        for_one = EVEN_CHOICES_ROWS * 2 // EXPERTS * INNER * 4
        self.assertGreaterEqual(sizes.count(for_one), 3 * EXPERTS)
        self.assertNotIn(EVEN_CHOICES_ROWS * 2 * INNER * 4, sizes)
        end = rows[-1]
        self.assertIn(EVEN_NOTE, end["notes"])
        self.assertNotIn(NOTE, end["notes"])
        # The results of all experts are kept for backward: none of them, or all tokens in each.
        self.assertGreater(end["maybeLessBytes"], EXPERTS * for_one)
        self.assertGreater(end["maybeMoreBytes"], (EXPERTS - 1) * EXPERTS * for_one)


class EvenChoicesShares(unittest.TestCase):
    def setUp(self):
        watch = watching.watched()
        self.observer = watch.__enter__()
        self.addCleanup(watch.__exit__, None, None, None)
        self.observer.category = kinds.ACTIVATION
        self.scores = torch.empty(80, EXPERTS, device="meta")
        self.rows = torch.empty(80, 4, device="meta")

    def test_places_of_the_largest_and_drawn_numbers_are_spread_evenly(self):
        chances = self.scores.softmax(-1)
        draws = {
            "argmax": self.scores.argmax(-1),
            "max": self.scores.max(-1).indices,
            "multinomial": chances.multinomial(1).flatten(),
            "randint": torch.randint(0, EXPERTS, (80,), device="meta"),
            "bucketize": torch.bucketize(self.rows[:, 0], self.scores[0, 1:]),
        }
        for name, chosen in draws.items():
            with self.subTest(name):
                self.assertEqual(self.rows[chosen == 3].shape, (10, 4))
                self.assertEqual(len((chosen != 3).nonzero()), 70)
        self.assertEqual(self.observer.notes, {EVEN_NOTE})

    def test_a_limit_above_the_mean_is_passed_by_one_chance_of_a_row(self):
        chances = self.scores.softmax(-1)
        self.assertEqual(len(torch.where(chances[:, 1:].reshape(-1) > 0.2)[0]), 70)
        self.assertEqual(self.observer.notes, {EVEN_NOTE})
        # All may pass one below.
        self.assertEqual(len(torch.where(chances.reshape(-1) > 0.05)[0]), 640)

    def test_masks_of_two_chosen_experts_however_they_are_made(self):
        gates, chosen = self.scores.topk(2)
        zeros = torch.zeros_like(self.scores)
        of_three = {
            "any": (chosen == 3).any(-1),
            "sum": (chosen == 3).sum(-1) > 0,
            "one_hot": one_hot(chosen, EXPERTS).permute(2, 1, 0)[3],
            "one_hot of rows": one_hot(chosen, EXPERTS).sum(1).bool()[:, 3],
            "scatter": zeros.scatter(1, chosen, gates)[:, 3],
            "flat": chosen.reshape(-1).clone() == 3,
        }
        for name, mask in of_three.items():
            with self.subTest(name):
                self.assertEqual(len(mask.nonzero()), 20)
        self.assertEqual(len((chosen == 3).any(-1).logical_not().nonzero()), 60)
        self.assertEqual(len(((chosen == 3) | (chosen == 4)).nonzero()), 40)
        self.assertEqual(gates.masked_select(chosen == 3).shape, (20,))

    def test_answers_go_back_to_the_rows_that_were_chosen(self):
        """Gradients, too, as the mixtures of many projects do it."""
        rows = self.rows.requires_grad_()
        chosen = self.scores.argmax(-1)
        out = torch.zeros_like(rows)
        spread = torch.zeros_like(rows)
        for number in range(EXPERTS):
            mask = chosen == number
            out[mask] = rows[mask] * 2
            spread[mask] += rows[mask].exp()
            spread = spread.masked_scatter(mask[:, None], rows[mask].exp())
            place = mask.nonzero(as_tuple=True)[0]
            spread = spread.index_copy(0, place, rows[place])
        (out + spread).sum().backward()
        self.assertEqual(rows.grad.shape, rows.shape)

    def test_counts_of_what_was_chosen_cut_rows_into_even_parts(self):
        places = self.scores.topk(2, dim=-1).indices
        marked = torch.zeros_like(self.scores).scatter(1, places, 1)
        for counts in (marked.long().sum(0), torch.bincount(places.flatten(), minlength=EXPERTS)):
            sizes = counts.tolist()
            self.assertEqual(sum(sizes), places.numel())
            self.assertLessEqual(max(sizes) - min(sizes), 1)
            parts = self.rows.repeat(2, 1).split(sizes)
            self.assertEqual([len(part) for part in parts], sizes)

    def test_what_was_written_over_is_not_known(self):
        chosen = self.scores.argmax(-1)
        chosen[:4] = -1
        self.assertEqual(self.rows[chosen == 3].shape, (80, 4))
        self.assertEqual(self.observer.notes, {NOTE})

    def test_a_number_that_is_no_choice_tells_nothing(self):
        chosen = self.scores.argmax(-1)
        self.assertEqual(self.rows[chosen == 255].shape, (80, 4))
        self.assertEqual(self.rows[self.scores[:, 0] > 0].shape, (80, 4))
        self.assertEqual(self.observer.notes, {NOTE})


if __name__ == "__main__":
    unittest.main()
