"""Cards that are not the H200: what cuDNN is told about them, and workspaces where it cannot be asked."""

import unittest
from unittest import mock

import torch

from tracing.test_convolutions import problem
from tracing.watching import Asked, watched

from plimsoll.tracing.gpu import H200, cudnn_properties, gpu_of
from plimsoll.tracing.kernels import cudnn
from plimsoll.tracing.kernels.convolution import Problem
from plimsoll.tracing.kernels.cudnn import usual_before_hopper
from plimsoll.tracing.kernels.cudnn_library import Choice
from plimsoll.tracing.options import parse
from plimsoll.tracing.record import settings_of
from plimsoll.tracing.standins.cuda_names import on_meta

RTX_3060 = gpu_of("NVIDIA GeForce RTX 3060", 86, 28, 12 << 30)


class Facts(unittest.TestCase):
    def test_a_card_is_told_to_cudnn_with_its_architecture(self):
        properties = cudnn_properties(RTX_3060)
        self.assertEqual((properties["deviceVer"], properties["multiProcessorCount"]), (860, 28))
        self.assertEqual(
            (properties["maxThreadsPerSM"], properties["maxSharedMemoryPerBlockOptin"]),
            (1536, 101376),
        )

    def test_what_is_left_out_is_typical_of_the_architecture(self):
        self.assertEqual(gpu_of("some card", 89, None, None).multiprocessors, 128)
        # Not yet known: the newest one before it.
        self.assertEqual(gpu_of("some card", 87, None, None).threads_per_multiprocessor, 1536)

    def test_without_facts_it_is_the_h200(self):
        self.assertIs(gpu_of(None, None, None, None), H200)
        self.assertIs(settings_of(parse(["--torchvision=resnet18"])).gpu, H200)
        self.assertIs(
            settings_of(parse(["--torchvision=resnet18", "--capability=gfx942"])).gpu, H200
        )

    def test_arguments_make_a_card(self):
        words = [
            "--gpu=Tesla T4",
            "--capability=7.5",
            "--multiprocessors=40",
            "--gpu-memory=16106127360",
        ]
        card = settings_of(parse(["--torchvision=resnet18", *words])).gpu
        self.assertEqual((card.name, card.capability, card.multiprocessors), ("Tesla T4", 75, 40))

    def test_a_script_that_asks_is_told_about_the_card(self):
        with on_meta(RTX_3060):
            self.assertEqual(torch.cuda.get_device_capability(), (8, 6))
            self.assertEqual(torch.cuda.get_device_properties(0).multi_processor_count, 28)


class FakeCudnn:
    def choose(self, asked, which, fallback=True):
        return Choice(1, {}, 4096)


class Asking(unittest.TestCase):
    def setUp(self):
        cudnn._cache.clear()
        self.addCleanup(cudnn._cache.clear)

    def test_each_card_is_asked_about_by_itself(self):
        asked = []

        def library(gpu=H200):
            asked.append(gpu.name)
            return FakeCudnn()

        with mock.patch.object(cudnn, "library", library):
            conv = problem(8, 64, 56, 64, 3, pad=1)
            self.assertEqual(cudnn.workspace(conv, "forward", RTX_3060), 4096)
            cudnn.workspace(conv, "forward", H200)
        self.assertEqual(asked, ["NVIDIA GeForce RTX 3060", "NVIDIA H200"])

    def test_a_trace_asks_for_the_workspace_of_its_card(self):
        sizes = {}
        for gpu in (H200, RTX_3060):
            with (
                mock.patch.object(cudnn, "library", lambda gpu=H200: None),
                watched(gpu=gpu) as observer,
            ):
                read = Asked(observer)
                image = torch.empty(8, 64, 56, 56, device="meta")
                weight = torch.empty(64, 64, 3, 3, device="meta")
                read.sizes()
                torch.nn.functional.conv2d(image, weight, padding=1)
                sizes[gpu.name] = read.sizes()[-1]
        copy = 8 * 64 * 56 * 56 * 4
        self.assertEqual(sizes["NVIDIA GeForce RTX 3060"], copy)
        self.assertGreater(sizes["NVIDIA H200"], 2 * copy)


class WithoutCudnn(unittest.TestCase):
    """As cuDNN 9.8 answers about an RTX 3060, and published runs with cuDNN 9.1 show it."""

    def test_tensor_cores_read_a_copy_of_the_input(self):
        conv = problem(480, 64, 86, 64, 3, pad=1)
        copy = 480 * 64 * 86 * 86 * 4
        self.assertEqual(usual_before_hopper(conv, "forward", 86), copy)
        self.assertEqual(usual_before_hopper(conv, "grad_input", 86), 0)
        self.assertEqual(usual_before_hopper(conv, "grad_weight", 86), 2 * copy)

    def test_the_first_convolution_needs_none(self):
        conv = problem(326, 3, 86, 64, 7, 2, 3)
        for which in ("forward", "grad_input", "grad_weight"):
            self.assertEqual(usual_before_hopper(conv, which, 86), 0)

    def test_pointwise_ones_keep_the_weights_gradient_of_each_image(self):
        """The last layer of MobileNetV2 and of MnasNet, whose published peaks were 12 to 17 % higher without it."""
        conv = problem(317, 320, 3, 1280, 1)
        self.assertEqual(usual_before_hopper(conv, "forward", 86), 0)
        self.assertEqual(usual_before_hopper(conv, "grad_input", 86), 0)
        self.assertEqual(usual_before_hopper(conv, "grad_weight", 86), 317 * 320 * 1280 * 4)

    def test_before_tensor_cores_took_float32_nothing_was_copied(self):
        self.assertEqual(usual_before_hopper(problem(480, 64, 86, 64, 3, pad=1), "forward", 75), 0)
        half = problem(480, 64, 86, 64, 3, pad=1, dtype=torch.float16)
        self.assertEqual(usual_before_hopper(half, "forward", 75), 480 * 64 * 86 * 86 * 2)

    def test_channels_for_themselves_are_each_filled_up_to_sixteen_bytes(self):
        """ConvNeXt: pixel by pixel, so that PyTorch's own kernels do not take it."""
        image = torch.empty(282, 96, 21, 21, device="meta").to(memory_format=torch.channels_last)
        weight = torch.empty(96, 1, 7, 7, device="meta")
        conv = Problem(image, weight, image, [1, 1], [3, 3], [1, 1], False, 96)
        self.assertEqual(usual_before_hopper(conv, "forward", 86), 2 * 4 * 282 * 96 * 21 * 21 * 4)
        self.assertEqual(usual_before_hopper(conv, "grad_input", 86), 0)
