"""The most that linear algebra asks for at once, forward and backward, beside what an H200 was asked for."""

import unittest

import torch

from tracing.watching import watched

# Bytes at once, forward and backward, of matrices of 512 x 512, and of eight of 256 x 256.
MEASURED = {
    "slogdet": ((1060864, 3158016), (2126848, 6326272)),
    "det": ((1060352, 4207104), (2126848, 8423936)),
    "inv": ((3160576, 3145728), (6334976, 6291456)),
    "solve": ((3160576, 3145728), (6334976, 6291456)),
    "qr": ((6294528, 4194304), (7349248, 8388608)),
    "svd": ((5387264, 2097152), (6896640, 4194304)),
    "eigh": ((3224576, 2097152), (4504576, 4194304)),
    "cumprod": ((2097152, 4456448), (4194304, 8912896)),
    "unique": ((3193344, 1048576), (6377984, 2097152)),
    "pinv": ((5388288, None), (8406528, None)),
    "matrix_exp": ((13634560, 58723328), (None, None)),
}
RUN = {
    "slogdet": lambda a: torch.linalg.slogdet(a)[1],
    "det": torch.linalg.det,
    "inv": torch.linalg.inv,
    "solve": lambda a: torch.linalg.solve(a, a),
    "qr": lambda a: torch.linalg.qr(a)[1],
    "svd": lambda a: torch.linalg.svd(a, full_matrices=False)[1],
    "eigh": lambda a: torch.linalg.eigh(a + a.mT)[0],
    "cumprod": lambda a: (a * 0.01 + 1).cumprod(-1),
    "unique": lambda a: a * a.detach().round().unique().sum(),
    "pinv": torch.linalg.pinv,
    "matrix_exp": torch.linalg.matrix_exp,
}
SHAPES = ((512, 512), (8, 256, 256))


def block(size):
    return -(-size // 512) * 512


def peak_of(ledger, since):
    held = peak = 0
    for event in ledger.events[since:]:
        if event[0] == "a":
            held += block(event[2])
        elif event[0] == "f":
            held -= block(ledger.asked(event[1])[2])
        peak = max(peak, held)
    return peak


class Matrices(unittest.TestCase):
    def test_the_peak_of_is_within_a_fiftieth_of_an_h200s(self):
        for name, run in RUN.items():
            for shape, (forward, backward) in zip(SHAPES, MEASURED[name]):
                with self.subTest(name=name, shape=shape), watched() as observer:
                    ledger = observer.ledger
                    source = torch.empty(shape, device="meta", requires_grad=True)
                    begin = len(ledger.events)
                    result = run(source)
                    self.near(peak_of(ledger, begin), forward)
                    grad = torch.empty_like(result)
                    begin = len(ledger.events)
                    result.backward(grad)
                    self.near(peak_of(ledger, begin), backward)

    def test_least_squares_have_the_shapes_of_the_driver_that_cuda_has(self):
        for left, right in (
            ((8, 64, 32), (8, 64, 4)),
            ((6, 6), (6, 2)),
            ((20, 5), (20,)),
            ((5, 3, 9), (5, 3)),
            ((1, 6, 6), (8, 6, 2)),
        ):
            with self.subTest(left=left, right=right), watched():
                matrix = torch.empty(left, device="meta", requires_grad=True)
                found = torch.linalg.lstsq(matrix, torch.empty(right, device="meta"))
                real = torch.linalg.lstsq(torch.rand(left), torch.rand(right), driver="gels")
                self.assertEqual([one.shape for one in found], [one.shape for one in real])
                found.solution.sum().backward()
                self.assertEqual(matrix.grad.shape, left)

    def near(self, size, measured):
        if measured is not None:
            self.assertLess(abs(size - measured), measured / 50)


if __name__ == "__main__":
    unittest.main()
