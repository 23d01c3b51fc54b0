"""The observer of a program: it tells host from GPU, and counts ops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Callable

import torch

from .. import op_facts, small_values, sparse
from ..observer import Observer
from ..op_facts import draws_numbers
from . import values
from .places import GPU, HOST, META, REAL, Places
from .plain_ops import MORE, PlainOps
from .random_draws import DRAWS, Draws

_PACK = torch.ops.aten._pack_padded_sequence.default
# So many ops in host memory count as one on the clock of the trace.
_HOST_OPS = 20
# Rows that are picked out of a data set in host memory, for a batch. Where they hold more numbers than this, their
# values are left out: they decide nothing, and copying them would take most of the time of a trace.
_INDEX = torch.ops.aten.index.Tensor
_PICKS = {_INDEX, torch.ops.aten.index_select.default}
_MAX_PICKED = 1 << 22
_ON_META = attrgetter("is_meta")
_REAL = (torch.Tensor, torch.nn.Parameter)


_ATEN = torch.ops.aten
_CHOOSE = {_ATEN.argmax.default, _ATEN.multinomial.default}
# How beams choose: the best continuations of all of them, or the scores of those that were drawn.
_BEST, _GATHER = _ATEN.topk.default, _ATEN.gather.default
_AMONG = {_ATEN.isin.Tensor_Tensor, _ATEN.isin.Tensor_Scalar}
# What texts are followed through.
TEXT_OPS = _CHOOSE | _AMONG | {_BEST, _GATHER}
NOTE = (
    "generated texts may end early: counted are the longest. The interval allows for it while they are generated, "
    "not for what is made of them later"
)
# Not all alike: programs count the different words of a text.
_STEP, _NEXT_STEP = 7919, 104729


class Texts:
    """Texts that a model generates: which tokens it chooses, and when a text ends.

    Scores have no values, so any token may be the chosen one. It is taken from the middle of the vocabulary:
    tokens that mean something (the end of a text, padding, times in speech) stand at either end of it.
    """

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        # The words of the model that generates; None while none does.
        self._words: int | None = None
        self._chosen = 0
        # The highest peak until the first token of a text that may end.
        self._peak: int | None = None

    @contextmanager
    def generated_by(self, model: Any) -> Iterator[None]:
        """Within its call of generate()."""
        before = self._words, self._peak
        self._words, self._peak = _words_of(model), None
        try:
            yield
        finally:
            if self._peak is not None:
                self._observer.ledger.peak_may_be_less(self._peak)
            self._words, self._peak = before

    def follow(self, func: Any, args: tuple, result: Any) -> None:
        if func in (_BEST, _GATHER) or func in _CHOOSE:
            if self._words:
                self._follow_scores(func, args[0], result, self._words)
        elif func in _AMONG and small_values.readable(result):
            self._among(result)

    def _among(self, result: Any) -> None:
        """A token that was chosen is none of those that end a text."""
        if self._words is None and small_values.is_known(result):
            return
        if self._words is not None and self._peak is None:
            self._peak = self._observer.ledger.peak_bytes
            self._observer.notes.add(NOTE)
        small_values.remember(result, torch.zeros(result.shape, dtype=torch.bool, device="cpu"))

    def _follow_scores(self, func: Any, scores: Any, result: Any, words: int) -> None:
        beams = _beams(scores, words)
        if func in _CHOOSE and not beams:
            self._choose(scores, result, words)
        elif beams:
            best, places = result if func is _BEST else (result, result)
            if func is not _GATHER and small_values.readable(places):
                small_values.remember(places, self._continued(places, words, beams))
            if func not in _CHOOSE and small_values.readable(best):
                small_values.remember(best, self._scores(best))

    def _continued(self, places: Any, words: int, beams: int) -> Any:
        """Each beam goes on with a word of its own."""
        self._chosen += 1
        number = torch.arange(places.numel(), device="cpu")
        word = words // 3 + (number * _STEP + self._chosen * _NEXT_STEP) % (words // 3)
        return (number % places.shape[-1] % beams * words + word).reshape(places.shape)

    def _scores(self, best: Any) -> Any:
        """The best first, and lower for each word of a text."""
        place = torch.arange(best.numel(), device="cpu") % best.shape[-1]
        return (-self._chosen - place / best.shape[-1]).to(best.dtype).reshape(best.shape)

    def _choose(self, scores: Any, result: Any, words: int) -> None:
        """Of scores for all words: of others, such as those of experts, nothing is known."""
        third = words // 3
        of_words = third > 0 and scores.dim() > 0 and scores.shape[-1] == words
        one_of_a_row = of_words and result.numel() == scores.numel() // words
        if not one_of_a_row or not small_values.readable(result):
            return
        self._chosen += 1
        spread = torch.arange(result.numel(), device="cpu") * _STEP + self._chosen * _NEXT_STEP
        small_values.remember(result, (third + spread % third).reshape(result.shape))


def _beams(scores: Any, words: int) -> int:
    """How many beams have their scores for all words in one row; 0 where scores are of another kind."""
    of_beams = words > 2 and scores.dim() == 2 and scores.shape[1] > words
    return scores.shape[1] // words if of_beams and scores.shape[1] % words == 0 else 0


def _words_of(model: Any) -> int:
    config = model.config
    if hasattr(config, "get_text_config"):
        config = config.get_text_config(decoder=True)
    return getattr(config, "vocab_size", None) or 0


# All that a program's observer has more to do for than other observers have.
_FOLLOWED = {*_PICKS, *DRAWS, _PACK, *TEXT_OPS}


ORDER_NOTE = (
    "batches differ in shape, so that what the allocator holds depends on their order; "
    "more of it than of usual programs is a guess"
)


class ProgramObserver(Observer):
    def __init__(self, ledger: Any, gpu: Any, current_module: Callable[[], str], places: Places):
        super().__init__(ledger, gpu, current_module)
        self.scalars = values.PlausibleScalars(self.chosen.even.share_of)
        self.places = places
        # The clock of a trace: the same on every machine.
        self.ops = 0
        self.host_ops = 0
        # Whether more is to be done for an op than other observers do, by its `id`; with the op, which is held.
        self._followed: dict[int, tuple[bool, Any]] = {}
        # Whether any batches differ in shape.
        self.differ = False
        # Above zero inside of a function that the program compiles.
        self.in_compiled = 0
        # Compiles ahead for sizes that will come.
        self.coming: Any = None
        # Loaders of the program, and the one that it reads; they are not held.
        self.loaders: list[Any] = []
        self.read_loader: Any = None
        # Rows of sequences that were packed: batches of one shape may hold different numbers of them.
        self.packed: set[int] = set()
        self.on_op: Callable[[], None] | None = None
        self._draws = Draws()
        self.texts = Texts(self)
        self._plain = PlainOps(self, places, _FOLLOWED)
        # Whether what is copied to the host is what was there before, as when ranks agree on something.
        self.agreed = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        # From here on tensors say where they are.
        with torch._C.DisableTorchFunction():
            result = self._plain.run(func, args, kwargs)
            if result is not MORE:
                return result
            given = Given(args, kwargs)
            made = given.names_host and not draws_numbers(func)
            if made or (given.all_real and func not in _PICKS):
                # As it is: programs make their samples of thousands of small ops.
                self.count_host_op()
                if self._draws.owed and draws_numbers(func):
                    self._draws.settle()
                return func(*args, **kwargs or {})
            return self._dispatch(func, types, args, kwargs, given)

    def _dispatch(self, func, types, args, kwargs, given):
        if self.passes_on and any(issubclass(kind, self.passes_on) for kind in types):
            return NotImplemented
        kwargs = kwargs or {}
        if self._draws.owed and func not in DRAWS and draws_numbers(func):
            self._draws.settle()
        if given.any_on_meta:
            self.tick()
        else:
            self.count_host_op()
        if given.mixes(self.places) and func not in op_facts.COPIES:
            args, kwargs = self._all_on_meta(args, kwargs)
        followed = self._followed.get(id(func))
        if followed is None:
            followed = self._followed[id(func)] = (func in _FOLLOWED, func)
        if not followed[0]:
            return super().__torch_dispatch__(func, types, args, kwargs)
        if func in _PICKS and _picks_many(func, args):
            args, kwargs = self._all_on_meta(args, kwargs)
        if func in DRAWS and args[0].is_meta and self.places.of(args[0]) == HOST:
            self._draws.follow(func, args, kwargs)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if func is _PACK:
            self.packed.add(len(result[0]))
        self.texts.follow(func, args, result)
        return result

    def put_in_place(self, stand_ins: dict[Any, Callable]) -> None:
        super().put_in_place(stand_ins)
        self._plain = PlainOps(self, self.places, _FOLLOWED)

    def follows_draws(self) -> bool:
        """Whether the host's generator is where it would be in a real run."""
        return self._draws.all_followed()

    def guess_order(self, drawn: bool = False) -> None:
        """Batches differ, and their order, or which of them are run, is not that of a real run."""
        if self.differ:
            self.facts.ragged = True
            self.facts.drawn = self.facts.drawn or drawn
            self.notes.add(ORDER_NOTE)

    def passes_by(self) -> bool:
        """Counts an op on values of the host, if nothing more is to be done for it: no other mode sees it, and no
        numbers are to be drawn before it."""
        if self._draws.owed or torch._C._len_torch_dispatch_stack() != 1:
            return False
        self.count_host_op()
        return True

    def count_host_op(self) -> None:
        """What a program does in host memory to make a batch shows nothing of the GPU; many count as one."""
        self.host_ops += 1
        if self.host_ops % _HOST_OPS == 0:
            self.tick()

    def count_host_ops(self, count: int) -> None:
        """That another process did for this one."""
        for _ in range(count):
            self.count_host_op()

    def ticks_of_host(self, before: int) -> int:
        """What the clock went on by, for ops in host memory since there were so many."""
        return self.host_ops // _HOST_OPS - before // _HOST_OPS

    def tick(self) -> None:
        self.ops += 1
        if self.on_op is not None:
            self.on_op()

    def is_on_host(self, tensor: torch.Tensor) -> bool:
        return self.places.where(tensor) in (HOST, REAL)

    def host_copy(self, func, args, kwargs) -> Any:
        source = args[0] if func is op_facts.TO_COPY else args[1]
        if op_facts.read(func, args, kwargs) is None:
            return None
        if func is op_facts.TO_COPY:
            return values.plausible(source, self, kwargs.get("dtype"))
        if self.agreed:
            return args[0]
        return args[0].copy_(values.plausible(source, self).expand(args[0].shape))

    def _record(self, func, rule, args, kwargs, result) -> None:
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        given = [one for one in _tensors(args, kwargs) if one.is_meta]
        if not given and not _any_on_meta(_tensors(outputs, {})):
            # What is computed in host memory works in host memory.
            return
        place = self._place(given)
        if place == GPU:
            self.record_on_gpu(func, rule, args, kwargs, result)
            return
        for output in outputs:
            if isinstance(output, torch.Tensor) and output.is_meta:
                self._elsewhere(output, place)

    def record_on_gpu(self, func, rule, args, kwargs, result) -> None:
        super()._record(func, rule, args, kwargs, result)

    def _elsewhere(self, tensor, place: str) -> None:
        """A tensor that takes nothing of the GPU."""
        storage = sparse.stored(tensor).untyped_storage()
        if storage._cdata not in self._live:
            self.ignore(storage)
            self.places.remember(storage, place)

    def resized(self, storage, size: int) -> None:
        if self.places.of_storage(storage) == GPU:
            super().resized(storage, size)

    def _place(self, given: list[torch.Tensor]) -> str:
        """Where an op works, from the tensors without memory that it is given."""
        if self.places.named is not None:
            return self.places.named
        if not self.places.any_elsewhere():
            return GPU
        place = META
        for one in given:
            found = self.places.of(one)
            if found == GPU:
                return GPU
            place = HOST if found == HOST else place
        return place if given else GPU

    def _all_on_meta(self, args, kwargs):
        """The model is on meta before it is moved; what it meets in host memory then follows it."""

        def moved(value):
            if isinstance(value, (list, tuple)):
                return type(value)(moved(v) for v in value)
            if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or not value.dim():
                return value
            on_meta = value.to("meta")
            # Made inside of the mode, where nothing is seen.
            self._elsewhere(on_meta, HOST)
            return values.copy_known_value(value, on_meta)

        return moved(tuple(args)), {name: moved(value) for name, value in kwargs.items()}


class Given:
    """The tensors that an op is given: where they are."""

    __slots__ = ("_tensors", "_values_on_host", "all_real", "any_on_meta", "names_host")

    def __init__(self, args: Any, kwargs: Any) -> None:
        self._tensors: list[torch.Tensor] = []
        self.any_on_meta = self._values_on_host = False
        real, on_cpu = True, False
        for value in (*args, *kwargs.values()) if kwargs else args:
            for one in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(one, torch.Tensor):
                    self._tensors.append(one)
                    if one.is_meta:
                        self.any_on_meta = True
                        real = False
                    else:
                        on_host = one.is_cpu
                        real = real and on_host and type(one) in _REAL
                        self._values_on_host = self._values_on_host or (on_host and one.dim() > 0)
                elif real and isinstance(one, torch.device):
                    real = on_cpu = one.type == "cpu"
        # Whether the op is given real values alone.
        self.all_real = real and bool(self._tensors)
        # Whether it is given none, and makes some in host memory.
        self.names_host = real and on_cpu and not self._tensors

    def mixes(self, places: Places) -> bool:
        """Whether an op meets both real values and what stands for memory of the host's."""
        if not (self._values_on_host and self.any_on_meta):
            return False
        return any(one.is_meta and places.of(one) == HOST for one in self._tensors)


def _any_on_meta(given: list[torch.Tensor]) -> bool:
    return any(map(_ON_META, given))


def _picks_many(func, args) -> bool:
    """Whether an op picks many numbers of the host's, by their places."""
    source = args[0]
    if source.device.type != "cpu" or not source.is_floating_point() or source.requires_grad:
        return False
    along, by = (0, args[1]) if func is _INDEX else (args[1], [args[2]])
    if len(by) != 1 or source.dim() == 0 or by[0].dtype not in (torch.int64, torch.int32):
        return False
    return by[0].numel() * (source.numel() // max(1, source.shape[along])) > _MAX_PICKED


def _tensors(args, kwargs) -> list[torch.Tensor]:
    found = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(one for one in value if isinstance(one, torch.Tensor))
    return found
