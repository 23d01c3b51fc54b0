"""What `torch.fft` asks for on CUDA: results, copies of inputs that cuFFT cannot read as they lie, and its work area.

The order is that of PyTorch: dimensions that are not transformed come first, by their strides, as one; of the others
cuFFT takes up to three at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from .registry import Launch, rule

_AT_ONCE = 3


# The memory that cuFFT works in, beside its input and output.
#
# Of 2,224 plans in float32 that were drawn at random, of one to three dimensions, an H200 took one for all that have
# one here, and for no others; 98 of 100 are within 6 %. In float64 it is 12 of 350 that differ.

# Longer lines than were asked about: complex ones go without up to this length, where all factors are small; real ones
# where the length is a power of two.
_LONGEST_WITHOUT = 16384
_LARGEST_FACTOR = 13
# Lines with a larger prime factor are worked out as a product of longer ones (Bluestein), in memory above this length.
_LARGEST_PRIME = 127
_LONGEST_INSIDE = 4096
_DOUBLE = 16


# Lengths of lines that cuFFT needs a work area for, asked of an H200.
#
# One bit for each length: the lowest is that of length 0. Lengths up to 4608 were asked about
# (bench/gpu/fourier_transforms.py).

LONGEST = 4608

# Lines of real numbers.
REAL = int(
    "1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffefffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffdffffffffffffefffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffdfffffffffffffffffffffffffffffffffffffffffffffff"
    "fffdff7fffffffffffffffffffffffffffffffffefffffffffffffffffffffffffffffffefffffffffffffffffffffffffff"
    "ffffffffffffffffffffefffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffff7fffffffefffffffffffffffffffffffffffffffffffffffffffffffffffffefffffffffffffefff"
    "efeffbfffeffcfffdffffeffffffef7fef7fefffffcfffffffbfefefefffaffefbffffdfefffeffdffffeffeffefeffbdfef"
    "ffefbeffeff7effbfe7fcfffefefe7bbeffeebefafcfeffeeffdeeefcebfeecfebf7efbeef7eeedfcfef6beeeeaf6fe7ceef"
    "bfebedeee7cdaeebeee6e1cfc8444e8e44c22461840c400000000",
    16,
)

# Lines of complex ones.
COMPLEX = int(
    "feffbffffff6ffbffeffffffefeffffefffff7fffffffffefbfefbffff3effeebfff6ffefefffffbeff7fffffbfff6fcffef"
    "defffffeffdebfffeff7ffeffefe4380049d000085022016902080010300008a404a001414032000c100a000500444080dac"
    "801100c10008218226820a021404106800000616005404250020a02002028118c00488400001c0115af08000000204a14301"
    "08a94048000c404002200360014520682044000008a300091c120a00408013042008089008818004060484003d0004440083"
    "843238400000005086030b04c2000a12020800019105124060400400e06220800a0c00e01500240051484c018400001d8920"
    "80b00220a10418045201240008205c64c100200201400308728840020c270104028111184400a04a40c10492008600824018"
    "02104090200cc00d11e41228080000002c8a1840902700306640011000880661089000c2a032050901102000e04802660e23"
    "04000414820801a5cc000021910198008804181b080a00010164420452000401122260702a012448100c215280040881534c"
    "8824880500087020d8a120161004841253e12400ea90007810c08023128156a018892502428c0484028b5e504000354a4304"
    "a8142929040824359400a80a21e8262013a0315940004512411a8ac069408c8138461c0201da820300c0c50742249920848c"
    "4c0141e04130822201ec0078820601222760000820404d80a4840808200e601c0008b2825022a09894001a0c425038044cf0"
    "660412861050c01460420c408400404404000000000000000000",
    16,
)

# Lines of complex ones that do not lie one after another.
APART = int(
    "1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffe4380049d0000c503201690218201030a008a404a001514032001c109a000501444080da"
    "c801100c12008218226820a021484106808000616205406250420a02102029118e00488400001c0115af09001000204a1430"
    "108a95048001c40400220036001452068204c000209a300091c130a0048c11304200908b008818004860484003d000446008"
    "3843238400000005086030b14c2000f1a0a0800019105124162400400e06220800a0c00e015012400514a4c018420001d892"
    "082b10220a10518045281ac0088205c64c100200201400308728840020c270104228111184500a04a40c1049200860082401"
    "a02104090204cc00d11e41238080000002c8a1840902712b06641011000880661099100e7a032050901182008e24802660e2"
    "324010414820801a5cc41002991219c068804181b080a02010164420c5201040112226072aa012448100c215280340881734"
    "d8824880512087120d8a120161205841257e12400ea90027814c08023928156b018892582528c04860b8b5e546010356a434"
    "4a8142929050824359408a80a21e8262413a83159e0024512411a8ac069408c8138469c4601da820344c0c5074a24f920948"
    "e6c0161f4c130c2a201ec84788e0621222f620008204c4d84a4cc080822ce681c002cb286d062a0dcd4801e2c427478044ef"
    "0ee041e865052cc1e60421cd88404e0e40c22461840c400000000",
    16,
)

# In float64.
REAL_DOUBLE = int(
    "1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffefffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffdffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffdfffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffff7fffffffffffffffffffffffffffffffffefffffffffffffffffffffffffffffffefffffffffffffffffffffffffff"
    "ffffffffffffffffffffefffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffff7fffffffefffffffffffffffffffffffffffffffffffffffffffffffffffffefffffffffffffefff"
    "efeffbfffeffcfffdffffeffffffef7fef7fefffffcfffffffbfefefefffaffefbffffdfefffeffdffffeffeffefeffbdfef"
    "ffefbeffeff7effbfe7fcfffefeff7bbeffffbffafcfeffefffdeeefcfbfffcfebf7efbeef7efedfcfef7befeebf6ff7ceef"
    "bfebedfee7cdaffbeef6e1cfc8544f8e45c32461840c400000000",
    16,
)
COMPLEX_DOUBLE = int(
    "ffffbffffff7fffffeffffffefeffffffffff7fffffffffefbfefbffff3effeebfff6ffefefffffffff7fffffffff6fcffef"
    "fefffffeffffbffffff7ffeffefefffefffffefbbffeffffffeefdfffff5fefffffffffef7ffeffefffefffffbeffffdbfff"
    "fef7ffefdfffffbeffffeffefffefffffefffffedeffbffffbfeff7eff7fefffdfbffeffffffeffffeffeffefbffffbfefff"
    "faffefef7feeffefffeefffeffeffdffeff6fffdfefbffeffffefffdf7beff7fbffeefdeffffefff7efeffefffdeeffcffff"
    "ffffbffffffffffeefffdfeefeeffbfefffffffffffffffefefefffefffffefbbefefbfefffeef7efffdffbfffbefffdfffb"
    "fcfeffffbffeffafdf7f7eff7fefffeff7fffdfafffeffeffffcfffffe7fbffedfeffffeffbee7fffef7efffbbfefffffffe"
    "dedff6fa7fbeefffffffdfeefbeffefe7ffff9eed02f0130e642413005d9066b089480d2a4330519e1106050e669026e0e23"
    "544406158f8801b5cc0225319341980aa806183ba90e10039564cac472001445da3264706a1324c8359c21d2800c08d55b4d"
    "c82c880500187221d8f16017b00494925be32401ea98407c12d0902316a156a059892d0642ce4484028b5f5040203d4ed394"
    "aa943d29064c25359480a80a21ea273017b0355940104712513a8ac06b408c8138761c020dda820300c0cf8742649928848c"
    "4c0961e051328aa201ec81789606312a2760111830707d80b49c0898230e601c0148b38a5022a19894001a0c625038046cf0"
    "660412861050c01460420c408400404404000000000000000000",
    16,
)


def work_area(sizes: tuple[int, ...], signals: int, element: int, is_real: bool) -> int:
    """Bytes, for so many signals of these sizes; `element`: of a complex number."""
    *outer, inner = sizes
    is_double = element == _DOUBLE
    needs = _needs(inner, is_real, is_double) or any(_needs_apart(one, is_double) for one in outer)
    if not needs:
        return 0
    return prod(outer) * signals * element * _elements(inner, is_real)


def _elements(length: int, is_real: bool) -> int:
    """Of a line."""
    if length > _LONGEST_INSIDE and largest_factor(length) > _LARGEST_PRIME:
        if not is_real:
            return 2 * _next_smooth(2 * length - 1)
        if length % 2:
            return _next_smooth(2 * length - 1) + length // 2
    return length // 2 + 1 if is_real and length % 2 == 0 else length


def _needs(length: int, is_real: bool, is_double: bool) -> bool:
    if length > LONGEST:
        return _needs_longer(length, is_real)
    tables = (REAL, REAL_DOUBLE) if is_real else (COMPLEX, COMPLEX_DOUBLE)
    return bool(tables[is_double] >> length & 1)


def _needs_apart(length: int, is_double: bool) -> bool:
    if length > LONGEST:
        return _needs_longer(length, is_real=False)
    return bool((COMPLEX_DOUBLE if is_double else APART) >> length & 1)


def _needs_longer(length: int, is_real: bool) -> bool:
    if length > _LONGEST_WITHOUT:
        return True
    return largest_factor(length) > (2 if is_real else _LARGEST_FACTOR)


def largest_factor(length: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= length:
        if length % factor:
            factor += 1
        else:
            largest, length = factor, length // factor
    return max(largest, length)


def _next_smooth(least: int) -> int:
    """The next one with no factors but 2, 3 and 5."""
    while largest_factor(least) > 5:
        least += 1
    return least


@dataclass(frozen=True)
class Laid:
    """How a tensor lies in memory."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    # Bytes of one of its numbers.
    element: int
    is_real: bool = False

    @classmethod
    def of(cls, tensor: Any) -> Laid:
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        return cls(shape, strides, tensor.element_size(), not tensor.is_complex())

    @property
    def bytes(self) -> int:
        return prod(self.sizes) * self.element

    def in_order(self, order: list[int], sizes: tuple[int, ...]) -> Laid:
        """Of other sizes, without gaps, the last of the order closest together."""
        strides, step = [0] * len(sizes), 1
        for dim in reversed(order):
            strides[dim] = step
            step *= sizes[dim]
        return Laid(sizes, tuple(strides), self.element, self.is_real)

    def packed(self) -> Laid:
        return self.in_order(list(range(len(self.sizes))), self.sizes)


@rule("aten._fft_r2c")
def from_real(launch: Launch) -> None:
    given, dims = _given(launch)
    if not dims:
        return
    laid = Laid.of(given)
    half = tuple(size // 2 + 1 if dim == dims[-1] else size for dim, size in enumerate(laid.sizes))
    result = Laid(half, (), 2 * laid.element)
    now, later = (dims, []) if _at_once(dims) else (dims[-1:], dims[:-1])
    first = _first(launch, later)
    # To cuFFT two real numbers are a complex one, which begins at a multiple of its size.
    copy = launch.take(laid.bytes) if given.storage_offset() % 2 else None
    done = _transform(launch, laid if copy is None else laid.packed(), now, result)
    launch.place_all()
    _stages(launch, done, later)
    _give(launch, copy, first)


@rule("aten._fft_c2r")
def to_real(launch: Launch) -> None:
    given, dims = _given(launch)
    if not dims:
        return
    laid = Laid.of(given)
    result = Laid(tuple(launch.outputs[0].shape), (), laid.element // 2, is_real=True)
    now, before = (dims, []) if _at_once(dims) else (dims[-1:], dims[:-1])
    launch.place_all()
    # cuFFT writes into its input: that is a copy, or what the other dimensions gave.
    copy = launch.take(laid.bytes)
    _transform(launch, _stages(launch, laid, before) if before else laid.packed(), now, result)
    _give(launch, copy)


@rule("aten._fft_c2c")
def between_complex(launch: Launch) -> None:
    given, dims = _given(launch)
    if not dims:
        return
    laid = Laid.of(given)
    dims = sorted(dims, key=lambda dim: -laid.strides[dim])
    now, later = dims[-_AT_ONCE:], dims[:-_AT_ONCE]
    first = _first(launch, later)
    done = _transform(launch, laid, now, laid)
    launch.place_all()
    _stages(launch, done, later)
    _give(launch, first)


def _given(launch: Launch) -> tuple[Any, list[int]]:
    """The input, and the dimensions that are transformed: none of an input without numbers."""
    given, dims = launch.argument(0, "self"), launch.argument(1, "dim")
    return given, [dim % given.dim() for dim in dims] if given.numel() else []


def _first(launch: Launch, later: list[int]) -> int | None:
    """Where more transforms are to come, what the first one gives lies elsewhere than the result."""
    if not later:
        launch.place_all()
        return None
    result = launch.outputs[0]
    return launch.take(result.numel() * result.element_size())


def _give(launch: Launch, *taken: int | None) -> None:
    launch.give(*(one for one in taken if one is not None))


def _at_once(dims: list[int]) -> bool:
    """Whether cuFFT gets them all: not where they are the first ones of the tensor, which is slower."""
    return len(dims) == 1 or (len(dims) <= _AT_ONCE and dims[:2] != [0, 1])


def _stages(launch: Launch, laid: Laid, dims: list[int]) -> Laid:
    """Complex numbers, as many dimensions at once as can be, those that lie closest together first."""
    left = list(dims)
    while left:
        left.sort(key=lambda dim: -laid.strides[dim])
        now, left = left[-_AT_ONCE:], left[:-_AT_ONCE]
        laid = _transform(launch, laid, now, laid)
    return laid


def _transform(launch: Launch, laid: Laid, dims: list[int], result: Laid) -> Laid:
    """One call of cuFFT, and how its result lies."""
    batch = [dim for dim in range(len(laid.sizes)) if dim not in dims]
    batch.sort(key=lambda dim: -laid.strides[dim])
    copy = launch.take(laid.bytes) if _needs_copy(laid, batch, dims) else None
    lengths = tuple(max(laid.sizes[dim], result.sizes[dim]) for dim in dims)
    is_real = laid.is_real or result.is_real
    complex_bytes = 2 * laid.element if laid.is_real else laid.element
    signals = prod(laid.sizes[dim] for dim in batch)
    area = work_area(lengths, signals, complex_bytes, is_real)
    if area:
        launch.scratch(area)
    if copy is not None:
        launch.give(copy)
    return result.in_order([*batch, *dims], result.sizes)


def _needs_copy(laid: Laid, batch: list[int], dims: list[int]) -> bool:
    """cuFFT reads signals that are equally far from one another, and each dimension in steps of those of the next."""
    many = [(laid.sizes[dim], laid.strides[dim]) for dim in batch if laid.sizes[dim] != 1]
    for (_, far), (size, near) in zip(many, many[1:]):
        if far != size * near:
            return True
    if many and many[-1][1] == 0:
        return True
    steps = [laid.strides[dim] for dim in dims if laid.sizes[dim] != 1]
    last = laid.strides[dims[-1]]
    if last <= 0:
        return True
    for step in reversed(steps[:-1] if laid.sizes[dims[-1]] != 1 else steps):
        if step <= 0 or step % last:
            return True
        last = step
    return False
