"""Workspaces of kinds of convolutions that an H200 was asked about (bench/truth/asked-convolutions.json.xz)."""

import json
import lzma
import os
import unittest

import torch
import torchvision
from torchvision.models.detection._utils import BalancedPositiveNegativeSampler, BoxCoder, Matcher
from torchvision.ops import (
    batched_nms,
    box_iou,
    clip_boxes_to_image,
    deform_conv2d,
    nms,
    ps_roi_align,
    ps_roi_pool,
    remove_small_boxes,
    roi_align,
    roi_pool,
)

from tracing import watching
from tracing.watching import rows_of
from warm import PACKAGE

from plimsoll_trace import small_values
from plimsoll_trace.assumed import likely_values
from plimsoll_trace.assumed.chosen import LIKELY_NOTE, NOTE
from plimsoll_trace.kernels import cudnn
from plimsoll_trace.kernels.convolution import Problem
from plimsoll_trace.programs import values

ASKED = os.path.join(os.path.dirname(PACKAGE), "bench", "truth", "asked-convolutions.json.xz")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
KINDS = ("forward", "grad_input", "grad_weight")
# Smaller differences seldom change what a program takes.
NEAR = 1 << 20
# Of the workspaces of each kind at least so many in a hundred are those of the card.
RIGHT = {"depthwise_last": 98, "whole": 97, "dense_last": 90}
RIGHT_OF_OTHERS = 95
SHARE = 4


def layer(x, w, stride=1, padding=0, dilation=1, groups=1, dtype=torch.bfloat16, last=True):
    dims = len(x) - 2
    order = torch.channels_last if last else torch.contiguous_format
    x, w = (
        torch.empty(shape, dtype=dtype, device="meta").to(memory_format=order) for shape in (x, w)
    )
    settings = [[n] * dims for n in (stride, padding, dilation)]
    y = torch.ops.aten.convolution(x, w, None, *settings, False, [0] * dims, groups)
    return Problem(x, w, y, *settings, False, groups)


def asked_problem(numbers, dtype, layout):
    x, w, stride, padding, dilation, transposed, output_padding, groups = numbers
    x, w = (torch.empty(shape, dtype=DTYPES[dtype], device="meta") for shape in (x, w))
    if layout == "nhwc":
        x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    settings = (stride, padding, dilation, bool(transposed))
    y = torch.ops.aten.convolution(x, w, None, *settings, output_padding, groups)
    problem = Problem(x, w, y, *settings, groups)
    # The strides of an image of one pixel do not tell how it lies.
    problem.channels_last |= layout == "nhwc"
    return problem


def asked():
    with lzma.open(ASKED) as file:
        return json.load(file)


class ChannelsApart(unittest.TestCase):
    """Depthwise layers, channels last, in half precision."""

    def test_a_convmixer_takes_memory_for_the_gradient_of_its_weights_alone(self):
        mixer = layer((96, 512, 28, 28), (512, 1, 7, 7), padding=3, groups=512)
        self.assertEqual([cudnn.workspace(mixer, which) for which in KINDS], [0, 0, 77070336])

    def test_large_filters_are_as_ranked_but_for_gradients_of_inputs(self):
        large = layer((12, 512, 56, 56), (512, 1, 9, 9), padding=4, groups=512)
        for which in ("forward", "grad_weight"):
            ranked = cudnn.library().choose(large, which).workspace
            self.assertEqual(cudnn.workspace(large, which), ranked)
        self.assertEqual(cudnn.workspace(large, "grad_input"), 0)

    def test_few_small_images_need_no_parts(self):
        few = layer((6, 1152, 7, 7), (1152, 1, 5, 5), padding=2, groups=1152, dtype=torch.float16)
        self.assertEqual(cudnn.workspace(few, "grad_weight"), 0)

    def test_small_results_of_large_filters_with_a_stride_are_as_ranked(self):
        small = layer((200, 1024, 12, 12), (1024, 1, 7, 7), 2, padding=3, groups=1024)
        self.assertEqual(cudnn.workspace(small, "grad_weight"), 0)


class Products(unittest.TestCase):
    def test_odd_channels_are_not_copied_where_pixels_lie_in_one_run(self):
        head = layer((128, 128, 25, 25), (91, 128, 1, 1))
        for which in ("forward", "grad_input"):
            size, other, chance = cudnn.workspaces(head, which)
            self.assertLess(size, NEAR)
            self.assertEqual(other, 15384723)
            self.assertTrue(0 < chance < 0.5)

    def test_gradients_of_weights_over_large_images_in_half_precision(self):
        large = layer((10, 256, 256, 256), (64, 256, 1, 1), dtype=torch.float16, last=False)
        self.assertEqual(cudnn.workspace(large, "grad_weight"), 655360)

    def test_clips_are_products_forward(self):
        clips = layer((8, 384, 64, 64, 64), (192, 384, 1, 1, 1), last=False)
        self.assertEqual(cudnn.workspace(clips, "forward"), 0)
        self.assertEqual(cudnn.workspace(clips, "grad_weight"), 2359296)

    def test_few_groups_of_four_channels_copy(self):
        groups = layer((64, 64, 100, 100), (64, 4, 3, 3), padding=1, groups=16, last=False)
        self.assertEqual(cudnn.workspace(groups, "grad_weight"), 169007039)


class WithoutTensorCores(unittest.TestCase):
    """A program may forbid TF32; then kernels run that do without tensor cores."""

    def setUp(self):
        self.addCleanup(setattr, torch.backends.cudnn, "allow_tf32", True)
        torch.backends.cudnn.allow_tf32 = False

    def test_workspaces_are_those_of_the_runs(self):
        wrong = []
        for kind, numbers, dtype, layout, measured in asked()["run"]:
            problem = asked_problem(numbers, dtype, layout)
            if kind != "tf32_off" or problem.depthwise:
                continue
            order = (1, 0, 2) if numbers[5] else (0, 1, 2)
            for place, size in zip(order, measured):
                if abs(cudnn.workspace(problem, KINDS[place]) - size) > NEAR:
                    wrong.append((numbers, KINDS[place]))
        # The one by Fourier transform, whose filter keeps no size.
        self.assertEqual(len(wrong), 1, wrong)

    def test_products_are_not_taken_in_float32(self):
        narrow = layer((16, 128, 25, 25), (1024, 128, 1, 1), dtype=torch.float32, last=False)
        forbidden = cudnn.workspaces(narrow, "grad_weight")
        torch.backends.cudnn.allow_tf32 = True
        self.assertNotEqual(forbidden, cudnn.workspaces(narrow, "grad_weight"))

    def test_half_precision_is_as_before(self):
        mixed = layer((8, 64, 56, 56), (64, 64, 3, 3), padding=1, last=False)
        forbidden = cudnn.workspace(mixed, "grad_weight")
        torch.backends.cudnn.allow_tf32 = True
        self.assertEqual(forbidden, cudnn.workspace(mixed, "grad_weight"))


class Asked(unittest.TestCase):
    def test_workspaces_are_those_that_an_h200_told(self):
        counts = {}
        for kind, numbers, dtype, layout, found in asked()["asked"][::SHARE]:
            problem = asked_problem(numbers, dtype, layout)
            if problem.depthwise:
                continue
            for which, answer in zip(KINDS, found):
                near = abs(cudnn.workspace(problem, which) - answer[1]) <= NEAR
                right, of = counts.get(kind, (0, 0))
                counts[kind] = right + near, of + 1
        for kind, (right, of) in counts.items():
            with self.subTest(kind=kind, right=right, of=of):
                self.assertGreaterEqual(100 * right, RIGHT.get(kind, RIGHT_OF_OTHERS) * of)


# Images, inputs, pixels of a side, outputs, filter.
GRADIENTS_OF_WEIGHTS = (
    (40, 128, 32, 64, 3),
    (80, 128, 32, 64, 3),
    (256, 128, 18, 64, 3),
    (96, 99, 14, 44, 3),
    (32, 153, 24, 53, 3),
    (96, 72, 20, 72, 3),
    (40, 133, 24, 48, 3),
    (256, 80, 32, 56, 3),
    (64, 64, 16, 64, 3),
)
GRADIENTS_OF_INPUTS = ((128, 16, 55, 64, 3),)
# It takes a transform, too; the fit is not sure of it.
UNSURE_GRADIENT_OF_INPUT = (24, 48, 25, 64, 5)
# Layers of ResNets and of a network for small images, which take other kernels.
OTHERS = ((4, 256, 14, 256, 3), (4, 64, 56, 64, 3), (32, 512, 7, 512, 3), (32, 64, 9, 64, 3))


def chance_of(images, inputs, side, outputs, width, which, dtype=torch.float32, padding=None):
    padding = width // 2 if padding is None else padding
    made = side + 2 * padding - width + 1
    x, y = (
        torch.empty(images, n, pixels, pixels, dtype=dtype, device="meta")
        for n, pixels in ((inputs, side), (outputs, made))
    )
    weight = torch.empty(outputs, inputs, width, width, dtype=dtype, device="meta")
    layer = Problem(x, weight, y, [1, 1], [padding] * 2, [1, 1], False, 1)
    return cudnn.likely_transform(layer, which, cudnn.library().choose(layer, which))[1]


class FiltersAsLargeAsImages(unittest.TestCase):
    """Images of one channel, as in gradients of gradients; pixels of a side, inputs, outputs, and bytes on an H200."""

    MEASURED = (
        (16, 512, 512, 13_631_504),
        (32, 512, 512, 26_214_416),
        (64, 512, 256, 17_301_520),
        (64, 256, 256, 10_747_920),
        (128, 256, 128, 26_345_488),
        (128, 128, 128, 8_665_432_064),
        (128, 64, 64, 2_168_455_168),
        (100, 128, 384, 6_558_474_240),
    )

    def test_take_what_a_whole_run_showed(self):
        for side, inputs, outputs, size in self.MEASURED:
            with self.subTest(side=side, inputs=inputs):
                x, weight = (
                    torch.empty(n, 1, side, side, device="meta") for n in (inputs, outputs)
                )
                y = torch.empty(inputs, outputs, 3, 3, device="meta")
                layer = Problem(x, weight, y, [1, 1], [1, 1], [1, 1], False, 1)
                self.assertEqual(cudnn.workspace(layer, "forward"), size)


class Transforms(unittest.TestCase):
    def test_are_likely_where_they_were_ranked_first(self):
        for which, layers in (
            ("grad_weight", GRADIENTS_OF_WEIGHTS),
            ("grad_input", GRADIENTS_OF_INPUTS),
        ):
            for layer in layers:
                with self.subTest(which=which, layer=layer):
                    self.assertGreater(chance_of(*layer, which), 0.5)

    def test_are_counted_on_where_they_are_not_sure(self):
        chance = chance_of(*UNSURE_GRADIENT_OF_INPUT, "grad_input")
        self.assertTrue(0.25 < chance < 0.95, chance)

    def test_are_unlikely_elsewhere(self):
        for layer in OTHERS:
            for which in ("grad_input", "grad_weight"):
                with self.subTest(which=which, layer=layer):
                    self.assertLess(chance_of(*layer, which), 0.25)

    def test_are_known_for_layers_that_keep_the_size_of_images_alone(self):
        # The encoder of an agent that sees pixels: an H200 took other kernels for all three.
        for side in (41, 39, 37):
            with self.subTest(side=side):
                layer = (512, 32, side, 32, 3)
                self.assertEqual(chance_of(*layer, "grad_weight", padding=0), 0)

    def test_are_known_for_float32_alone(self):
        chance = chance_of(*GRADIENTS_OF_WEIGHTS[0], "grad_weight", torch.bfloat16)
        self.assertEqual(chance, 0)


# How many boxes a detector chooses: exactly, where anchors and boxes decide; else as one that was just initialised.

SIZE, STRIDE, ANCHOR = 256, 8, 48
BOXES = [[10.0, 20.0, 70.0, 64.0], [120.0, 100.0, 160.0, 150.0]]
# Two pictures with three boxes each; the head of the masks sees the rows that hold something.
PROGRAM = """
import torch
from torch import nn
from torchvision.models.detection import MaskRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import MultiScaleRoIAlign

backbone = nn.Sequential(nn.Conv2d(3, 8, 16, stride=16))
backbone.out_channels = 8
model = MaskRCNN(
    backbone,
    num_classes=3,
    min_size=256,
    max_size=256,
    rpn_anchor_generator=AnchorGenerator(((32, 64, 128),), ((0.5, 1.0, 2.0),)),
    box_roi_pool=MultiScaleRoIAlign(["0"], 7, 2),
    mask_roi_pool=MultiScaleRoIAlign(["0"], 14, 2),
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    boxes = torch.tensor([[8.0, 8, 72, 72], [90, 30, 200, 140], [20, 150, 90, 250]])
    images = [torch.rand(3, 256, 256).cuda() for _ in range(2)]
    targets = [
        {
            "boxes": boxes.cuda(),
            "labels": torch.tensor([1, 2, 1]).cuda(),
            "masks": torch.ones(3, 256, 256, dtype=torch.uint8).cuda(),
        }
        for _ in range(2)
    ]
    loss = sum(model(images, targets).values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    model([torch.rand(3, 256, 256).cuda()])
"""
# What the first convolution of that head asks for one row, and what a picture has of them: its boxes, at least,
# and a quarter of the sample of 512, at most.
MASK_ROW, LEAST, MOST = 256 * 14 * 14 * 4, 3, 128


def anchors_on(device):
    """One square around each place of a grid, as anchor generators make them."""
    stride = torch.empty((), dtype=torch.int64, device=device).fill_(STRIDE)
    along = torch.arange(0, SIZE // STRIDE, dtype=torch.int32, device=device) * stride
    y, x = torch.meshgrid(along, along, indexing="ij")
    shifts = torch.stack((x.reshape(-1), y.reshape(-1)) * 2, dim=1)
    around = torch.tensor([-1, -1, 1, 1], dtype=torch.float32).to(device) * (ANCHOR / 2)
    return (shifts.view(-1, 1, 4) + around.view(1, -1, 4)).reshape(-1, 4)


def matched_on(device, proposals):
    boxes = torch.tensor(BOXES, device=device)
    return Matcher(0.5, 0.3, allow_low_quality_matches=True)(box_iou(boxes, proposals))


def _known(host):
    on_meta = torch.empty(host.shape, device="meta")
    small_values.remember(on_meta, host)
    return on_meta


class Rows(unittest.TestCase):
    def setUp(self):
        watch = watching.watched()
        self.observer = watch.__enter__()
        self.addCleanup(watch.__exit__, None, None, None)

    def test_anchors_that_overlap_with_boxes_are_those_of_a_real_run(self):
        real = matched_on("cpu", anchors_on("cpu"))
        traced = matched_on("meta", anchors_on("meta"))
        self.assertGreater(int((real >= 0).sum()), len(BOXES))
        for kind in (-2, -1, 0, 1):
            with self.subTest(kind):
                found = torch.where(traced == kind)[0]
                self.assertEqual(
                    small_values.value_of(found).tolist(), torch.where(real == kind)[0].tolist()
                )
        self.assertEqual(self.observer.notes, set())

    def test_anchors_that_a_model_moves_stay_about_where_they_are(self):
        coder = BoxCoder((10.0, 10.0, 5.0, 5.0))
        real = coder.decode(torch.zeros(len(anchors_on("cpu")), 4), [anchors_on("cpu")])
        real = clip_boxes_to_image(real[:, 0], (SIZE, SIZE))
        learned = torch.empty(len(real), 4, device="meta", requires_grad=True) * 2
        moved = coder.decode(learned.detach(), [anchors_on("meta")])
        moved = clip_boxes_to_image(moved[:, 0], (SIZE, SIZE))
        torch.testing.assert_close(small_values.likely_value_of(moved), real)
        # What the model adds is not known for sure.
        self.assertIsNone(small_values.value_of(moved))
        kept = remove_small_boxes(moved, 40)
        self.assertEqual(len(kept), len(remove_small_boxes(real, 40)))
        positive = torch.where(matched_on("meta", moved) >= 0)[0]
        self.assertEqual(len(positive), int((matched_on("cpu", real) >= 0).sum()))
        self.assertEqual(self.observer.notes, {LIKELY_NOTE})

    def test_the_size_of_a_found_box_can_be_read_a_score_of_all_is_no_size(self):
        """Programs make tensors as large as a box is wide, one for each box."""
        learned = torch.empty(1024, 4, device="meta", requires_grad=True) * 2
        moved = BoxCoder((1.0,) * 4).decode(learned.detach(), [anchors_on("meta")])[:, 0]
        widths = (moved[:, 2] - moved[:, 0]).clamp(min=1).ceil()
        self.assertEqual({int(widths[i].item()) for i in range(0, 1024, 64)}, {ANCHOR})
        self.assertIsNotNone(small_values.likely_value_of(widths.mean()))
        self.assertIsNone(likely_values.size_of(widths.mean()))
        # What is divided by is not zero.
        self.assertIsNone(likely_values.size_of((widths - ANCHOR)[0]))

    def test_under_autocast_boxes_are_cut_out_in_float32(self):
        wanted = {roi_align: 1, roi_pool: 2, ps_roi_align: 2, ps_roi_pool: 2}
        features = torch.empty(2, 32, 16, 16, dtype=torch.float16, device="meta")
        rois = torch.empty(8, 5, device="meta")
        asked = watching.Asked(self.observer)
        with torch.autocast("cuda", dtype=torch.float16):
            for cut, results in wanted.items():
                with self.subTest(cut.__name__):
                    self.assertEqual(cut(features, rois, 4).dtype, torch.float16)
                    sizes = asked.sizes()
                    # All is cast, and what was made is cast back, as torchvision does on CUDA.
                    self.assertEqual(sizes[0], features.numel() * 4)
                    made = sizes[1 : 1 + results]
                    self.assertEqual(sizes[1 + results :], [size // 2 for size in made])
            kept = nms(rois[:, :4].half(), rois[:, 4].half(), 0.5)
            self.assertEqual(kept.dtype, torch.int64)
            weight = torch.empty(8, 32, 3, 3, device="meta")
            offset = torch.empty(2, 18, 14, 14, device="meta")
            self.assertEqual(deform_conv2d(features, offset, weight).dtype, torch.float16)

    def test_the_best_boxes_are_any_and_those_that_overlap_are_dropped(self):
        scores = torch.empty(1, len(anchors_on("cpu")), device="meta")
        best = scores.topk(500, dim=1).indices[0]
        boxes = anchors_on("meta")[best]
        groups = torch.zeros(500, dtype=torch.int64, device="meta")
        kept = batched_nms(boxes, scores[0, best], groups, 0.4)
        places = small_values.likely_value_of(best)
        self.assertEqual(len(places.unique()), 500)
        real = anchors_on("cpu")[places]
        left = small_values.likely_value_of(kept)
        self.assertLess(len(kept), 500)
        overlap = box_iou(real[left], real[left]).fill_diagonal_(0)
        self.assertLessEqual(float(overlap.max()), 0.4)
        # In any order: the best of 500 are spread over the picture.
        self.assertGreater(float(real[left][:20, 1].max() - real[left][:20, 1].min()), SIZE / 2)

    def test_a_sample_is_as_large_as_asked_for(self):
        learned = torch.empty(1024, 4, device="meta", requires_grad=True) * 2
        moved = BoxCoder((1.0,) * 4).decode(learned.detach(), [anchors_on("meta")])[:, 0]
        labels = (matched_on("meta", moved) >= 0).float()
        positive, negative = BalancedPositiveNegativeSampler(256, 0.25)([labels])
        rows = torch.where(positive[0] | negative[0])[0]
        self.assertEqual(len(rows), 256)
        chosen = torch.where(labels[rows] > 0)[0]
        self.assertGreater(len(chosen), 0)
        self.assertLess(len(chosen), 64)
        self.assertEqual(self.observer.chosen.samples, {256: 64})

    def test_hard_negatives_are_as_many_as_the_positives_allow(self):
        loss = torch.empty(2, 1024, device="meta")
        positives = torch.tensor([[5], [9]], device="meta")
        order = loss.sort(1, descending=True)[1]
        hard = order.sort(1)[1] < positives * 3
        self.assertEqual(loss[hard].shape, (42,))

    def test_boxes_that_were_computed_on_the_host_are_known_and_pictures_are_not(self):
        host = torch.rand(8732, 4)
        moved = values.copy_known_value(host, torch.empty(8732, 4, device="meta"))
        self.assertTrue(torch.equal(small_values.value_of(moved), host))
        picture = values.copy_known_value(
            torch.rand(3, 64, 64), torch.empty(3, 64, 64, device="meta")
        )
        self.assertIsNone(small_values.value_of(picture))

    def test_boxes_that_lie_apart_are_compared_in_groups(self):
        corner = torch.rand(600, 2, generator=torch.Generator().manual_seed(1)) * 100
        level = torch.arange(600) % 4
        boxes = torch.cat([corner, corner + 30], 1) + (level * 131)[:, None]
        order = likely_values.shuffled(600).float()
        apart = likely_values.kept_boxes(torchvision.ops.nms, *map(_known, (boxes, order)), 0.3)
        self.assertEqual(apart.tolist(), torchvision.ops.nms(boxes, order, 0.3).tolist())
        nothing = torch.empty(0, 4, device="meta")
        self.assertEqual(len(torchvision.ops.nms(nothing, nothing[:, 0], 0.3)), 0)

    def test_without_known_coordinates_all_are_taken(self):
        boxes = torch.empty(100, 4, device="meta")
        self.assertEqual(len(batched_nms(boxes, boxes[:, 0], boxes[:, 0].long(), 0.5)), 100)
        self.assertEqual(len(torch.where(boxes[:, 0] > 0.5)[0]), 100)
        self.assertIn(NOTE, self.observer.notes)

    def test_values_beside_layers_are_not_followed(self):
        """They would cost much and say nothing: places of words beside what layers computed."""
        states = torch.empty(4, 64, 32, device="meta")
        places = torch.arange(64 * 32, device="meta").reshape(1, 64, 32).float()
        self.assertIsNone(small_values.likely_value_of(states + places))
        trained = torch.empty(64, 32, device="meta", requires_grad=True) + places[0]
        self.assertIsNone(small_values.likely_value_of(trained))


class Program(unittest.TestCase):
    def test_masks_are_learned_from_the_few_rows_that_hold_something(self):
        rows = rows_of(self, PROGRAM)
        sizes = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
        heads = {size // MASK_ROW for size in sizes if size % MASK_ROW == 0 and size > MASK_ROW}
        trained = [count for count in heads if count < 2 * MOST]
        self.assertTrue(any(2 * LEAST <= count < MOST for count in trained), heads)
        self.assertNotIn(2 * 512, heads)
        end = rows[-1]
        self.assertIn(LIKELY_NOTE, end["notes"])
        self.assertNotIn(NOTE, end["notes"])
        # A model that has learned finds a quarter of the sample.
        self.assertGreater(end["maybeMoreBytes"], 2 * MOST * MASK_ROW)
        self.assertLess(end["maybeMoreBytes"], 2 * 512 * 10 * MASK_ROW)
        self.assertGreater(end["maybeLessBytes"], 2 * LEAST * MASK_ROW)


if __name__ == "__main__":
    unittest.main()
