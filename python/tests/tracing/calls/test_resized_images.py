import unittest

import torch

from plimsoll.tracing.corrections import resized

RESIZE = (torch.ops.aten.upsample_bilinear2d.default, torch.ops.aten.upsample_bicubic2d.default)


def images():
    for shape in ((2, 3, 7, 5), (1, 17, 56, 56), (1, 1, 4, 4), (3, 32, 1, 9)):
        plain = torch.empty(shape, device="meta")
        yield plain
        yield plain.to(memory_format=torch.channels_last)
        yield plain.half()
        yield plain[:, :1]
        yield plain.transpose(2, 3)
        yield plain.permute(1, 0, 2, 3)
    yield torch.empty(1, 3, 1, 1, device="meta").expand(2, 3, 4, 4)


class Resized(unittest.TestCase):
    def test_it_lies_as_pytorch_says(self):
        for func in RESIZE:
            for image in images():
                for size in ((7, 5), (14, 10), (1, 1)):
                    expected = func(image, size, False)
                    found = resized(func, (image, size, False), {})
                    with self.subTest(func=func, shape=image.shape, stride=image.stride()):
                        self.assertEqual(
                            (found.shape, found.stride(), found.dtype),
                            (expected.shape, expected.stride(), expected.dtype),
                        )

    def test_the_kernel_is_not_asked_for_usual_images(self):
        image = torch.empty(1, 17, 56, 56, device="meta")
        self.assertEqual(resized(None, (image, (90, 40), False), {}).shape, (1, 17, 90, 40))


if __name__ == "__main__":
    unittest.main()
