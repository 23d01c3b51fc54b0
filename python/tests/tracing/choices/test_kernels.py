"""Convolutions inside of `torch.compile`, and the fitted tables that choose kernels."""

import gzip
import json
import math
import operator
import os
import sys
import tempfile
import unittest
from unittest import mock

import torch

from tracing.test_convolutions import problem
from tracing.watching import rows_of
from warm import PACKAGE

from plimsoll_trace.kernels import cudnn, unranked
from plimsoll_trace.kernels.cudnn_library import _Is
from plimsoll_trace.kernels.fitted import models
from plimsoll_trace.known_values import computing

PROGRAM = """
import torch
from torch import nn

m = nn.Sequential(nn.Conv2d(8, 48, 3, padding=1), nn.GELU(), nn.Conv2d(48, 8, 3, padding=1)).cuda()
run = torch.compile(m)
for _ in range(2):
    run(torch.zeros(16, 8, 64, 64).cuda()).sum().backward()
assert m[0].bias.grad.shape == (48,)
"""
BIAS = 48 * 4


class CompiledConvolutions(unittest.TestCase):
    def test_gradients_of_biases_are_sums_that_the_compiler_fuses(self):
        rows = rows_of(self, PROGRAM)
        names = {row[1]: row[2] for row in rows if isinstance(row, list) and row[0] == "s"}
        biases = [
            names[row[3]]
            for row in rows
            if isinstance(row, list) and row[0] == "a" and row[2] == BIAS
        ]
        self.assertIn("torch.compile was followed", str(rows[-1]))
        self.assertTrue(biases)
        self.assertNotIn("aten.convolution_backward.default", biases)


# Which of the kernels that cuDNN ranks is taken, and how many it is asked for.

LAYER = problem(4, 64, 30, 64, 3, pad=1)


@unittest.skipIf(cudnn.library() is None, "cuDNN comes with PyTorch's CUDA builds")
class Ranked(unittest.TestCase):
    def setUp(self):
        self.known = cudnn.library()
        self.asked = []
        own = self.known._descriptors

        def descriptors(owner, name, kind, most):
            if kind == _Is.CONFIG:
                self.asked.append(most)
            return own(owner, name, kind, most)

        counting = mock.patch.object(self.known, "_descriptors", descriptors)
        counting.start()
        self.addCleanup(counting.stop)

    def test_the_first_is_asked_for_alone(self):
        for which in ("forward", "grad_input", "grad_weight"):
            listed = self.known.tried(LAYER, which)
            self.asked.clear()
            self.assertEqual(self.known.choose(LAYER, which), listed[0])
            self.assertEqual(self.asked, [1])

    def test_the_next_ones_are_asked_for_where_it_cannot_be_built(self):
        listed = self.known.tried(LAYER, "forward")
        own, refused = self.known._plan, [True, True]

        def plan(layer, config):
            return None if refused and refused.pop() else own(layer, config)

        self.asked.clear()
        with mock.patch.object(self.known, "_plan", plan):
            self.assertEqual(self.known.choose(LAYER, "forward"), listed[2])
        self.assertEqual(len(self.asked), 2)

    def test_all_settings_of_a_kernel_are_read(self):
        listed = self.known.tried(LAYER, "forward")
        with mock.patch("plimsoll_trace.kernels.cudnn_library._FEW_KNOBS", 1):
            self.assertEqual(self.known.tried(LAYER, "forward"), listed)
        self.assertGreater(max(len(one.knobs) for one in listed), 1)


# Ops on many known values that numpy computes: the results are those of PyTorch, in its types.

ATEN = torch.ops.aten
MANY = 6000


def run(func, *args):
    return computing.run(func, list(args), {})


class Quicker(unittest.TestCase):
    def without_own(self, func):
        """The op is not to be run by PyTorch from now on."""

        def refused(*_):
            raise AssertionError(f"{func} was run by PyTorch")

        return mock.Mock(side_effect=refused, name=str(func))

    def assert_same(self, found, real):
        self.assertEqual(found.dtype, real.dtype)
        self.assertTrue(torch.equal(found, real))

    def test_comparisons(self):
        torch.manual_seed(0)
        drawn = torch.rand(3, MANY)
        drawn[0, :5] = torch.tensor([float("nan"), 0.3, float("inf"), -0.0, 0.0])
        whole = torch.randint(-2, 3, (MANY,))
        for name in ("eq", "ne", "lt", "le", "gt", "ge"):
            packet, compare = getattr(ATEN, name), getattr(operator, name)
            for values, number in ((drawn, 0.3), (drawn, 0), (drawn.double(), 0.3), (whole, -1)):
                own = self.without_own(packet.Scalar)
                found = computing.QUICKER[packet.Scalar](own, [values, number], {})
                self.assert_same(found, compare(values, number))
            own = self.without_own(packet.Tensor)
            found = computing.QUICKER[packet.Tensor](own, [drawn, drawn[:, 1:2]], {})
            self.assert_same(found, compare(drawn, drawn[:, 1:2]))

    def test_comparisons_of_several_types_are_left_to_pytorch(self):
        whole = torch.randint(-2, 3, (MANY,))
        drawn = torch.rand(MANY)
        self.assert_same(run(ATEN.lt.Scalar, whole, 0.5), whole < 0.5)
        self.assert_same(run(ATEN.lt.Tensor, whole, drawn), whole < drawn)
        self.assert_same(run(ATEN.lt.Scalar, drawn.half(), 0.3), drawn.half() < 0.3)
        self.assert_same(run(ATEN.eq.Scalar, drawn, True), drawn == True)  # noqa: E712
        self.assert_same(run(ATEN.gt.Scalar, drawn.requires_grad_(), 0.3), drawn > 0.3)

    def test_the_largest_of_rows_and_columns_are_the_first_of_equals(self):
        torch.manual_seed(0)
        values = torch.randint(0, 4, (7, MANY)).float()
        for dim in (0, 1, -1, -2):
            own = self.without_own(ATEN.max.dim)
            largest, places = computing.QUICKER[ATEN.max.dim](own, [values, dim], {})
            real = values.max(dim)
            self.assert_same(largest, real.values)
            self.assert_same(places, real.indices)

    def test_what_is_no_number_counts_as_the_largest(self):
        values = torch.rand(7, MANY)
        values[3, 5] = float("nan")
        for dim in (0, 1):
            largest, places = run(ATEN.max.dim, values, dim)
            self.assertTrue(largest.isnan().any())
            self.assert_same(places, values.max(dim).indices)

    def test_other_forms_are_left_to_pytorch(self):
        for values in (torch.rand(200, 50), torch.rand(MANY, 3).T, torch.rand(2, 50, 70)):
            largest, places = run(ATEN.max.dim, values, 0)
            self.assert_same(largest, values.max(0).values)
            self.assert_same(places, values.max(0).indices)

    def test_marked_places(self):
        torch.manual_seed(0)
        mask = torch.rand(3, MANY) < 0.01
        for marks in (mask, mask[0].clone(), mask.byte() * 200):
            own = self.without_own(ATEN.nonzero.default)
            found = computing.QUICKER[ATEN.nonzero.default](own, [marks], {})
            self.assert_same(found, marks.nonzero())


sys.path.insert(0, os.path.join(PACKAGE, "tools"))
import fit_kernels  # noqa: E402

TABLES = ("convolutions", "transforms")
# Of every 40th layer and eight trees.
SMALL_FIT = "e9690cb5910ca4861d4402991c8ca0873dfc003534a11af85e4dac761dca6575"
HEADER = {
    "format": models.FORESTS_FORMAT,
    "features": ["images", "width"],
    "forests": [{"name": "one"}],
}
RULE = {
    "group": "some",
    "name": "small images",
    "which": ["forward"],
    "when": {"images": [2, 4], "filter": "3 x 3"},
    "kernel": "product",
    "chance": 0.5,
    "layers": 3,
    "taken": 2,
}


def odds(sum_of_leaves):
    return 1 / (1 + math.exp(-sum_of_leaves / 100))


class Trees(unittest.TestCase):
    def test_numbers_of_all_trees_add_up_to_the_odds(self):
        self.assertEqual(models.chance([0], []), 0.5)
        self.assertEqual(models.chance([100, -30], []), odds(70))

    def test_a_value_up_to_the_threshold_goes_the_first_way(self):
        trees = [[1, 5.0, -50, 30]]
        for value, leaf in ((4.0, -50), (5.0, -50), (5.5, 30)):
            self.assertEqual(models.chance(trees, [99.0, value]), odds(leaf))

    def test_answers_may_be_further_questions(self):
        tree = [0, 2.0, [1, 7.0, 1, 20], [1, 3.0, 300, [0, 9.0, 4000, -500]]]
        for values, leaf in (
            ((1, 7), 1),
            ((2, 8), 20),
            ((3, 3), 300),
            ((9, 4), 4000),
            ((10, 4), -500),
        ):
            self.assertEqual(models.chance([tree], values), odds(leaf))


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "table.json.gz")

    def write(self, data):
        with open(self.path, "wb") as file:
            file.write(data)
        return self.path

    def damaged(self, why, read):
        with self.assertRaisesRegex(models.Damaged, why) as caught:
            read()
        self.assertEqual(caught.exception.code, "damaged-file")
        self.assertIn("install plimsoll again", str(caught.exception))


class Files(InAFolder):
    def table(self, *lines, **header):
        text = "\n".join(map(json.dumps, ({**HEADER, **header}, *lines)))
        return models.Table(self.write(gzip.compress(text.encode())))

    def test_features_are_found_by_their_names(self):
        table = self.table([[1, 5.0, -50, 30], 7])
        self.assertEqual(table.chance("one", {"width": 5, "other": 0, "images": 9}), odds(-43))
        self.assertEqual(table.chance("one", {"images": 5, "width": 9}), odds(37))
        self.assertIsNone(table.chance("two", {}))

    def test_a_missing_or_broken_file_is_told(self):
        self.damaged("No such file", lambda: models.Table(self.path))
        whole = gzip.compress(json.dumps(HEADER).encode())
        for data, why in (
            (b"", "cut off"),
            (b"no gzip", "header"),
            (whole[:-1], "cut off"),
            (whole[:-8] + b"12345678", "check"),
            (gzip.compress(b"{"), "not JSON"),
            (gzip.compress(b"[" * 100_000), "not JSON"),
            (gzip.compress(b"[]"), "format"),
            (gzip.compress(b""), "not JSON"),
        ):
            with self.subTest(data=data[:20]):
                self.write(data)
                self.damaged(why, lambda: models.Table(self.path))

    def test_large_files_are_not_read_to_the_end(self):
        self.write(b"0" * ((4 << 20) + 1))
        self.damaged("more than 4194304 bytes", lambda: models.Table(self.path))
        self.write(gzip.compress(b" " * ((32 << 20) + 1)))
        self.damaged("more than 33554432 bytes unpacked", lambda: models.Table(self.path))

    def test_a_header_names_the_format_the_features_and_a_line_for_each_forest(self):
        for header, why in (
            ({"format": "plimsoll.forests/0"}, "format"),
            ({"features": []}, "no features"),
            ({"features": [1]}, "no features"),
            ({"features": ["a"] * 1001}, "no features"),
            ({"forests": None}, "a line for each forest"),
            ({"forests": [{"name": "one"}, {"name": "two"}]}, "a line for each forest"),
        ):
            with self.subTest(header=str(header)[:40]):
                self.damaged(why, lambda header=header: self.table([7], **header))
        self.damaged("a line for each forest", lambda: self.table([7], [8]))

    def test_trees_that_no_value_could_pass_are_refused(self):
        deep = 7
        for _ in range(100):
            deep = [0, 1.0, deep, 7]
        for trees, why in (
            (7, "no trees"),
            ([], "no trees"),
            ([7] * 10_001, "no trees"),
            (["7"], "no trees"),
            ([True], "neither"),
            ([[0, 1.0, 7]], "neither"),
            ([[2, 1.0, 7, 8]], "neither"),
            ([[-1, 1.0, 7, 8]], "neither"),
            ([[0.0, 1.0, 7, 8]], "neither"),
            ([[0, 1, 7, 8]], "neither"),
            ([[0, math.inf, 7, 8]], "neither"),
            ([[0, math.nan, 7, 8]], "neither"),
            ([[0, 1.0, 7, None]], "neither"),
            ([[0, 1.0, 7, 0.5]], "neither"),
            ([1, 35_001], "neither"),
            ([-35_001, 1], "neither"),
            ([deep], "deeper"),
        ):
            with self.subTest(trees=str(trees)[:40]):
                table = self.table(trees)
                self.damaged(why, lambda table=table: table.trees("one"))
        self.assertEqual(self.table([deep[2]]).trees("one"), [deep[2]])
        self.assertEqual(self.table([-70_000]).chance("one", {"images": 0, "width": 0}), odds(-7e4))

    def test_a_feature_that_is_unknown_is_told(self):
        table = self.table([7])
        self.damaged("'width', which is unknown", lambda: table.chance("one", {"images": 1}))

    def test_a_program_that_replaces_open_does_not_stand_in_the_way(self):
        self.write(gzip.compress(b"content"))
        with mock.patch("builtins.open", side_effect=OSError("of the program")):
            self.assertEqual(models.content_of(self.path), b"content")


class Rules(InAFolder):
    def read(self, *rows, **changes):
        document = {"format": models.RULES_FORMAT, "rules": rows, **changes}
        return models.read(self.write(gzip.compress(json.dumps(document).encode())))

    def test_the_first_row_decides_whose_conditions_all_hold(self):
        wider = {**RULE, "name": "all", "when": {"images": [None, 9]}, "which": ["grad_input"]}
        with mock.patch.object(
            models, "rule_table", return_value=self.read(RULE, wider, {**wider, "name": "late"})
        ):
            for which, images, name in (
                ("forward", 1, None),
                ("forward", 2, "small images"),
                ("forward", 4, "small images"),
                ("forward", 5, None),
                ("grad_input", 4, "all"),
                ("grad_input", 9, "all"),
                ("grad_input", 10, None),
                ("grad_weight", 2, None),
            ):
                facts = {"images": images, "filter": "3 x 3"}
                found = models.first("some", which, facts.get)
                self.assertEqual(found and found.name, name, (which, images))
            self.assertIsNone(models.first("some", "forward", {"images": 3, "filter": "5 x 5"}.get))
            self.assertIsNone(models.first("others", "forward", {}.get))

    def test_a_row_may_correct_what_trees_say(self):
        row = {**RULE, "kernel": "trees", "least": 0.2, "most": 0.4, "sure": 0.98}
        (rule,) = self.read(row)["some"]
        self.assertTrue(rule.corrects_trees)
        for likely, corrected in ((0.1, 0.2), (0.3, 0.3), (0.7, 0.4), (0.98, 0.98), (0.97, 0.4)):
            self.assertEqual(rule.corrected(likely), corrected)
        self.assertFalse(self.read(RULE)["some"][0].corrects_trees)

    def test_broken_rows_are_told(self):
        for change in (
            {"name": 1},
            {"group": None},
            {"kernel": []},
            {"chance": 1.5},
            {"chance": "1"},
            {"least": -1},
            {"layers": -1},
            {"taken": 0.5},
            {"which": []},
            {"which": ["backward"]},
            {"when": []},
            {"when": {"images": [1]}},
            {"when": {"images": ["1", None]}},
            {"when": {"images": None}},
            {"when": {str(n): n for n in range(101)}},
        ):
            with self.subTest(change=str(change)[:40]):
                self.damaged("is not whole", lambda change=change: self.read({**RULE, **change}))
        self.damaged("no rules", lambda: self.read())
        self.damaged("format", lambda: self.read(RULE, format=models.FORESTS_FORMAT))


class Shipped(unittest.TestCase):
    def test_trees_are_whole_and_ask_about_features_that_are_known(self):
        for name in TABLES:
            table = models.table(name)
            asked = [forest["name"] for forest in table.about["forests"]]
            trees = {forest: table.trees(forest) for forest in asked}
            self.assertEqual({len(found) for found in trees.values()}, {fit_kernels.TREES + 1})
            self.assertEqual(fit_kernels.digest(trees), table.about["digest"])
            for forest in asked:
                features = {**dict.fromkeys(table.features, 1)}
                self.assertTrue(0 < table.chance(forest, features) < 1)

    def test_the_truth_is_what_they_were_fitted_to(self):
        for name in TABLES:
            about = models.table(name).about
            made = fit_kernels.ground(name)
            self.assertEqual({key: about[key] for key in made}, made)

    def test_they_name_versions_and_the_scores_of_layers_that_were_left_out(self):
        about = {name: models.table(name).about for name in TABLES}
        for name in TABLES:
            told = [about[name][key] for key in ("card", "cudnn", "torch")]
            self.assertEqual(told, ["NVIDIA H200", "9.19.0", "2.11.0+cu130"])
        for forest in about["convolutions"]["forests"]:
            self.assertGreater(forest["leftOut"]["right"], 95)
            self.assertGreater(forest["leftOut"]["right of sure"], 99)
        found = {one["name"]: one["leftOut"]["found"] for one in about["transforms"]["forests"]}
        self.assertEqual(sorted(found), ["forward", "grad_input", "grad_weight"])
        self.assertGreater(min(found.values()), 75)

    def test_rules_ask_for_facts_that_are_known_and_tell_how_many_layers_they_came_from(self):
        found = [rule for rows in models.rule_table().values() for rule in rows]
        self.assertEqual(sorted(models.rule_table()), ["by pixels", "left out", "transforms"])
        for rule in found:
            with self.subTest(rule=rule.name):
                self.assertLessEqual(set(rule.when), set(unranked.FACTS))
                self.assertTrue(rule.layers > 0 and 0 <= rule.taken <= rule.layers)
                self.assertIn(rule.kernel, ("ranked", "trees", *unranked.WORKSPACES))


class Fitted(unittest.TestCase):
    def test_a_small_part_of_the_layers_gives_the_same_trees_again(self):
        names, found = fit_kernels.samples("transforms", every=40)
        self.assertEqual(names, models.table("transforms").features)
        trees = {name: fit_kernels.fit(*rows, trees=8) for name, rows in found.items()}
        self.assertEqual(fit_kernels.digest(trees), SMALL_FIT)

    def test_a_packed_table_is_read_as_it_was_fitted(self):
        trees = {"one": [3, [0, 2.5, -1, [1, 4.0, 0, 7]]]}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "made.json.gz")
            with open(path, "wb") as file:
                file.write(fit_kernels.packed(HEADER, trees))
            self.assertEqual(models.Table(path).trees("one"), trees["one"])

    def test_values_on_both_sides_of_a_threshold_stay_there(self):
        for low, high, threshold in (
            (1, 2, 1.5),
            (1, 1.01, 1),
            (1, 1.2, 1),
            (3, 100, 50),
            (7, 7, 7),
        ):
            found = fit_kernels.shortest_between(low, high)
            self.assertEqual(found, threshold)
            self.assertIsInstance(found, float)


if __name__ == "__main__":
    unittest.main()
