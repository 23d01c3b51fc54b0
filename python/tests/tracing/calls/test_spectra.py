"""What `torch.fft` asks for, against calls recorded on an H200 (bench/gpu/fourier_transforms.py)."""

import json
import lzma
import unittest
from pathlib import Path

import torch

from tracing.watching import Asked, watched

from plimsoll.tracing.kernels import spectra
from plimsoll.tracing.kernels.spectra import work_area

TRUTH = Path(__file__).parents[4] / "bench/truth/fourier-transforms.json.xz"

# Lines longer than those that an H200 was asked about: length, whether real, and the numbers of a work area.
WORK = (
    (5000, False, 0),
    (13312, False, 0),
    (16384, False, 0),
    (8704, False, 8704),
    (32768, False, 32768),
    (8192, True, 0),
    (16384, True, 0),
    (5000, True, 2501),
    (32768, True, 16385),
    (16385, True, 16385),
    # Up to a factor of 127; then as a product of lines of more than twice the length.
    (8128, False, 8128),
    (8384, False, 2 * 16875),
    (4612, False, 2 * 9375),
    (4612, True, 2307),
    (4609, True, 9375 + 2304),
)


def pictures(*shape):
    return torch.empty(*shape, device="meta")


class Transforms(unittest.TestCase):
    def asked(self, call, *tensors):
        with watched() as observer:
            asked = Asked(observer)
            call(*tensors)
            return asked.sizes()

    def test_two_dimensions_take_a_work_area_where_a_length_needs_one(self):
        # 328 is 8 x 41.
        x = pictures(6, 5, 328, 328)
        self.assertEqual(self.asked(torch.fft.rfft2, x), [12988800, 12988800])
        even = pictures(6, 5, 320, 320)
        self.assertEqual(self.asked(torch.fft.rfft2, even), [6 * 5 * 320 * 161 * 8])

    def test_the_result_is_there_before_the_work_area(self):
        # 329 is 7 x 47.
        self.assertEqual(self.asked(torch.fft.rfft, pictures(10, 329)), [13200, 26320])
        waves = torch.empty(10, 329, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(torch.fft.fft, waves[:, ::2]), [13200])

    def test_input_that_cannot_be_read_as_it_lies_is_copied(self):
        x = pictures(6, 5, 328, 328)
        turned = x.transpose(-1, -2)
        self.assertEqual(self.asked(torch.fft.rfft2, turned), [12988800, 12910080, 12988800])
        # It begins between two complex numbers.
        cut = x[..., 3:300, 5:301]
        self.assertEqual(self.asked(torch.fft.rfft2, cut), [10620720, 10549440, 10620720])
        channels_last = x.permute(0, 2, 3, 1)
        sizes = self.asked(lambda x: torch.fft.rfft2(x, dim=(1, 2)), channels_last)
        self.assertEqual(sizes, [12988800, 12988800])
        tokens = pictures(8, 512, 768)
        sizes = self.asked(lambda x: torch.fft.rfft(x, dim=1), tokens)
        self.assertEqual(sizes, [12632064, 12582912])

    def test_the_first_dimensions_are_worked_out_one_after_the_other(self):
        x = pictures(6, 5, 328, 328)
        sizes = self.asked(lambda x: torch.fft.rfft2(x, dim=(0, 1)), x)
        self.assertEqual(sizes, [15492096, 12910080, 15492096])

    def test_back_to_real_numbers_a_copy_is_written_into(self):
        spectrum = torch.empty(6, 5, 328, 165, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(torch.fft.irfft2, spectrum), [12910080, 12988800, 12988800])
        wave = torch.empty(64, 40001, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(torch.fft.irfft, wave), [20480000, 20480512, 20480512])

    def test_complex_numbers(self):
        spectrum = torch.empty(6, 5, 328, 165, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(torch.fft.fft2, spectrum), [12988800])
        # 40001 has the factor 181.
        wave = torch.empty(64, 40001, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(torch.fft.fft, wave), [20480512, 82944000])

    def test_more_than_three_dimensions_take_two_calls(self):
        x = pictures(6, 5, 40, 42, 44)
        sizes = self.asked(lambda x: torch.fft.rfftn(x, dim=(1, 2, 3, 4)), x)
        self.assertEqual(sizes, [9273600, 9273600, 9273600])
        sizes = self.asked(lambda x: torch.fft.fftn(x, dim=(1, 2, 3, 4)), x)
        self.assertEqual(sizes, [17740800] * 4)

    def test_nothing_to_transform_takes_its_result_alone(self):
        spectrum = torch.empty(6, 5, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(lambda x: torch.fft.fftn(x, dim=()), spectrum), [240])
        self.assertEqual(self.asked(torch.fft.rfft, pictures(0, 328)), [])

    def test_arguments_may_be_named(self):
        def named(x):
            return torch.ops.aten._fft_r2c(self=x, dim=[1], normalization=0, onesided=True)

        sizes = self.asked(named, pictures(8, 512, 768))
        self.assertEqual(sizes, [12632064, 12582912])

    def test_frames_of_a_sound_take_none(self):
        with watched() as observer:
            line, window = pictures(64, 80000), pictures(1024)
            asked = Asked(observer)
            torch.stft(line, 1024, 256, window=window, return_complex=True)
            # Padding, the frames and their spectra.
            self.assertEqual(asked.sizes(), [20742144, 82051072, 82211328])


class WorkAreas(unittest.TestCase):
    def test_the_lengths_are_those_that_an_h200_told(self):
        with lzma.open(TRUTH, "rt", encoding="utf-8") as file:
            lines = json.load(file)["lines"]
        for table, name in (
            (spectra.REAL, "r2c"),
            (spectra.COMPLEX, "c2c"),
            (spectra.APART, "strided"),
            (spectra.REAL_DOUBLE, "r2c float64"),
            (spectra.COMPLEX_DOUBLE, "c2c float64"),
        ):
            found = [length for length in range(spectra.LONGEST + 1) if table >> length & 1]
            self.assertEqual(found, [length for length, _ in lines[name]], name)

    def test_lines_longer_than_were_asked_about(self):
        for length, is_real, elements in WORK:
            with self.subTest(length=length, is_real=is_real):
                self.assertEqual(work_area((length,), 3, 8, is_real), 3 * 8 * elements)

    def test_of_plans_that_were_drawn_at_random(self):
        for sizes, lines, is_real, bytes_of_one in (
            ((2048, 41), 29, False, 0),
            ((57, 6), 93, False, 57 * 6),
            ((256, 256), 4096, True, 0),
            ((1080, 4), 43, True, 1080 * 3),
            ((1920, 1920), 72, True, 1920 * 961),
            ((100, 100, 100), 268, False, 0),
            ((256, 256, 129), 10, False, 256 * 256 * 129),
            ((16384,), 348, False, 0),
            ((21504,), 917, False, 21504),
            ((102400,), 24, True, 51201),
        ):
            with self.subTest(sizes=sizes):
                self.assertEqual(work_area(sizes, lines, 8, is_real), lines * 8 * bytes_of_one)


if __name__ == "__main__":
    unittest.main()
