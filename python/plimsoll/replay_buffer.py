"""`plimsoll.replay()`: transitions of a reinforcement learner, each observation kept once."""

from __future__ import annotations

import json
from typing import Any

from .arguments import BadType, BadValue, number, shown, text, whole
from .buffering.store import BufferStore
from .failure import Failure

_GIVEN = ("observation", "action", "reward", "next_observation", "terminated", "truncated")
TERMINATED, TRUNCATED, OWN_NEXT = 1, 2, 4
# A priority of 0 would never be drawn again.
LEAST_PRIORITY = 1e-6


# Priorities as a tree of sums, in arrays: many rows are changed or found in one call.


class SumTree:
    """In 32 bits: each sum is made of the two below it, so rounding does not pile up."""

    def __init__(self, rows: int, dtype: str = "float32") -> None:
        import numpy

        self._numpy = numpy
        self._leaves = 1 << max(0, rows - 1).bit_length()
        self._sums = numpy.zeros(2 * self._leaves, dtype=dtype)

    @property
    def total(self) -> float:
        return float(self._sums[1])

    @property
    def nbytes(self) -> int:
        return self._sums.nbytes

    def of(self, rows: Any) -> Any:
        return self._sums[self._leaves + rows]

    def set(self, rows: Any, values: Any) -> None:
        """Where a row comes twice, the later value counts."""
        places = self._leaves + self._numpy.asarray(rows)
        self._sums[places] = values
        while places.size and places[0] > 1:
            places = self._numpy.unique(places >> 1)
            self._sums[places] = self._sums[2 * places] + self._sums[2 * places + 1]

    def find(self, values: Any) -> Any:
        """For each value from 0 up to the total, the row in whose share it lies."""
        places = self._numpy.ones(len(values), dtype=self._numpy.int64)
        rest = self._numpy.array(values, dtype=self._numpy.float64)
        for _ in range(self._leaves.bit_length() - 1):
            left = 2 * places
            below = self._sums[left]
            # A sum of nothing is never entered, whatever rounding made of the rest.
            right = (rest >= below) & (self._sums[left + 1] > 0)
            rest -= below * right
            places = left + right
        return places - self._leaves


FIRST_SLOTS = 64


class OwnNext:
    """Next observations that are not the observation of a later row: at the end of an episode, and of the
    newest rows.
    """

    def __init__(self, like: Any) -> None:
        import numpy

        self._numpy = numpy
        self._kept = numpy.empty((FIRST_SLOTS, *like.shape[1:]), dtype=like.dtype)
        self._free = list(range(FIRST_SLOTS))
        self._slots: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        return self._kept.nbytes

    def put(self, rows: Any, observations: Any) -> None:
        if len(rows) > len(self._free):
            self._grow(len(rows))
        slots = [self._free.pop() for _ in range(len(rows))]
        self._kept[slots] = observations
        self._slots.update(zip(rows.tolist(), slots))

    def get(self, rows: Any) -> Any:
        return self._kept[[self._slots[row] for row in rows.tolist()]]

    def remove(self, rows: Any) -> None:
        self._free += [self._slots.pop(row) for row in rows.tolist()]

    def all(self) -> tuple[Any, Any]:
        """Every row that has one, and its observation."""
        rows = self._numpy.array(sorted(self._slots), dtype=self._numpy.int64)
        return rows, self.get(rows)

    def _grow(self, more: int) -> None:
        before = len(self._kept)
        after = max(2 * before, before + more)
        grown = self._numpy.empty((after, *self._kept.shape[1:]), dtype=self._kept.dtype)
        grown[:before] = self._kept
        self._free += range(before, after)
        self._kept = grown


# A replay buffer in a store of buffers: chunks of rows, and last of all what says which chunks count.

# Rows of one item: some megabytes, so that a chunk is compressed and checked as a whole.
CHUNK_ROWS = 65_536


def write_replay(
    store: BufferStore,
    name: str,
    about: dict[str, Any],
    columns: dict[str, Any],
    own: tuple[Any, Any],
) -> None:
    """A process that is killed meanwhile leaves the one that was saved before."""
    before = _about(store, name)
    version = 1 if before is None else before["version"] + 1
    rows = len(next(iter(columns.values()))) if columns else 0
    starts = range(0, rows, CHUNK_ROWS)
    for start in starts:
        part = {key: column[start : start + CHUNK_ROWS] for key, column in columns.items()}
        store.put(_key(name, version, start), part)
    if len(own[0]):
        store.put(_key(name, version, "own"), {"rows": own[0], "observations": own[1]})
    header = {**about, "version": version, "starts": list(starts), "own": len(own[0])}
    store.put(name, json.dumps(header).encode())
    if before is not None:
        for part in (*before["starts"], "own"):
            store.delete(_key(name, before["version"], part))


def read_replay(
    store: BufferStore, name: str
) -> tuple[dict[str, Any], dict[str, Any], tuple[Any, Any]]:
    import numpy

    about = _about(store, name)
    if about is None:
        raise _gone(name)
    chunks = [_part(store, name, about["version"], start) for start in about["starts"]]
    keys = chunks[0] if chunks else ()
    columns = {key: numpy.concatenate([chunk[key] for chunk in chunks]) for key in keys}
    if not about["own"]:
        return about, columns, (numpy.array([], dtype=numpy.int64), [])
    own = _part(store, name, about["version"], "own")
    return about, columns, (own["rows"], own["observations"])


def _about(store: BufferStore, name: str) -> Any:
    found = store.get(name)
    try:
        about = json.loads(found) if isinstance(found, bytes) else None
    except ValueError:
        about = None
    return about if isinstance(about, dict) and "version" in about else None


def _part(store: BufferStore, name: str, version: int, part: Any) -> Any:
    found = store.get(_key(name, version, part))
    if found is None:
        raise _gone(name)
    return found


def _key(name: str, version: int, part: Any) -> str:
    return f"{name}/{version}/{part}"


def _gone(name: str) -> Failure:
    fact = f"the replay buffer {name} is not in the store, or a part of it was dropped or damaged"
    return Failure("replay-gone", fact, "give the store a larger limit and save it again")


class ReplayBuffer:
    """Rows in a ring, in the order of time, one for each environment. The next observation of a row is the
    observation of that environment's next row, unless the two differ: then the row has its own.
    """

    def __init__(
        self, capacity: int, environments: int, priority: float | None, seed: int | None
    ) -> None:
        import numpy

        self._numpy = numpy
        self._environments = whole("environments", environments, 1)
        steps = -(-whole("capacity", capacity, 2) // environments)
        self.capacity = max(2, steps) * environments
        self._alpha = None if priority is None else number("priority", priority, 0, 1)
        self._tree = None if priority is None else SumTree(self.capacity)
        self._highest = 1.0
        self._random = numpy.random.default_rng(None if seed is None else whole("seed", seed, 0))
        self._columns: dict[str, Any] = {}
        self._flags = numpy.zeros(self.capacity, dtype=numpy.uint8)
        self._own: OwnNext | None = None
        self._head = self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Memory of all that it holds."""
        parts = [*self._columns.values(), self._flags, self._own, self._tree]
        return sum(part.nbytes for part in parts if part is not None)

    def add(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        next_observation: Any,
        terminated: Any,
        truncated: Any = False,
    ) -> None:
        """One step: a transition, or with several environments one of each (first dimension)."""
        given = (observation, action, reward, next_observation, terminated)
        arrays = [self._numpy.asarray(one) for one in given]
        if self._environments == 1:
            arrays = [one[None] for one in arrays]
        now, actions, rewards, later, ends = arrays
        self.extend(now, actions, rewards, later, ends, truncated)

    def extend(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        next_observation: Any,
        terminated: Any,
        truncated: Any = False,
    ) -> None:
        """Many transitions, in the order of time; with several environments all of a step, then all of
        the next one.
        """
        numpy = self._numpy
        given = (observation, action, reward, next_observation, terminated, truncated)
        arrays = {name: _numbers(name, one) for name, one in zip(_GIVEN, given)}
        now, later, end = (
            arrays[name] for name in ("observation", "next_observation", "terminated")
        )
        cut = arrays["truncated"]
        ends = end, numpy.broadcast_to(cut, end.shape) if cut.size == 1 else cut
        columns = {name: arrays[name] for name in ("observation", "action", "reward")}
        self._check(columns, later, ends)
        # Never more at once than half of the ring: the newest rows must still be there to be linked.
        most = max(
            self._environments, self.capacity // 2 // self._environments * self._environments
        )
        for start in range(0, len(now), most):
            part = slice(start, start + most)
            chunk = {name: one[part] for name, one in columns.items()}
            self._write(chunk, later[part], *(one[part] for one in ends))

    def sample(self, batch: int, beta: float = 0.4) -> dict[str, Any]:
        """Transitions drawn at random, as fresh arrays; by priority with `weight`, where that was asked for."""
        count = whole("batch", batch, 1)
        exponent = number("beta", beta, 0, 1)
        if self._size == 0:
            raise BadValue("the replay buffer is empty", "add transitions before you sample")
        if self._tree is None:
            return self._rows(self._random.integers(0, self._size, count))
        total = self._tree.total
        values = (self._numpy.arange(count) + self._random.random(count)) * (total / count)
        rows = self._tree.find(values)
        shares = self._tree.of(rows) * (self._size / total)
        weight = shares**-exponent
        return {**self._rows(rows), "weight": weight / weight.max()}

    def update_priorities(self, row: Any, priority: Any) -> None:
        """Errors of transitions that were sampled, by their `row`."""
        if self._tree is None or self._alpha is None:
            raise BadValue(
                "this replay buffer samples uniformly", "pass priority=0.6 to plimsoll.replay"
            )
        rows = _numbers("row", row)
        errors = self._numpy.abs(_numbers("priority", priority).astype(self._numpy.float64))
        good = (
            rows.shape == errors.shape
            and (not rows.size or rows.dtype.kind in "iu")
            and self._numpy.isfinite(errors).all()
        )
        if not good or (rows.size and not 0 <= rows.min() <= rows.max() < self._size):
            raise BadValue(
                "priorities must be finite, one for each row", "pass the rows of sample()"
            )
        raised = self._numpy.maximum(errors, LEAST_PRIORITY) ** self._alpha
        self._highest = max(self._highest, float(raised.max(initial=0.0)))
        self._tree.set(rows, raised)

    def save(self, store: BufferStore, name: str) -> None:
        """Keeps all of it in a store of buffers, compressed; an earlier one of that name is replaced."""
        _check_place(store, name)
        own = ([], []) if self._own is None else self._own.all()
        columns = {**self._columns, "flags": self._flags}
        if self._tree is not None:
            columns["priority"] = self._tree.of(self._numpy.arange(self.capacity))
        about = {
            "capacity": self.capacity, "environments": self._environments,
            "head": self._head, "size": self._size, "highest": self._highest,
        }  # fmt: skip
        write_replay(
            store, name, about, {key: one[: self._size] for key, one in columns.items()}, own
        )

    def restore(self, store: BufferStore, name: str) -> None:
        """Takes up what `save` kept; the capacity, environments and priority must be those it had."""
        _check_place(store, name)
        about, columns, (rows, observations) = read_replay(store, name)
        same = (about["capacity"], about["environments"]) == (self.capacity, self._environments)
        if not same or ("priority" in columns) != (self._tree is not None):
            fact = f"{name} was saved with other settings: {about['capacity']} rows"
            raise BadValue(fact, "make the replay buffer with the settings that it was saved with")
        self._head, self._size, self._highest = about["head"], about["size"], about["highest"]
        priorities, flags = columns.pop("priority", None), columns.pop("flags", ())
        self._columns = {key: self._empty_like(one) for key, one in columns.items()}
        for key, column in columns.items():
            self._columns[key][: self._size] = column
        self._flags[:] = 0
        self._flags[: self._size] = flags
        self._own = OwnNext(self._columns["observation"]) if columns else None
        if self._own is not None:
            self._own.put(rows, observations)
        if self._tree is not None:
            self._tree = SumTree(self.capacity)
            self._tree.set(self._numpy.arange(self._size), priorities)

    def _rows(self, rows: Any) -> dict[str, Any]:
        found = {name: column.take(rows, axis=0) for name, column in self._columns.items()}
        flags = self._flags.take(rows)
        following = rows + self._environments
        following[following >= self.capacity] -= self.capacity
        found["next_observation"] = self._columns["observation"].take(following, axis=0)
        places = (flags & OWN_NEXT).nonzero()[0]
        if places.size and self._own is not None:
            found["next_observation"][places] = self._own.get(rows[places])
        found["terminated"] = (flags & TERMINATED).astype(bool)
        found["truncated"] = (flags & TRUNCATED).astype(bool)
        found["row"] = rows
        return found

    def _write(self, columns: dict[str, Any], later: Any, terminated: Any, truncated: Any) -> None:
        numpy, now = self._numpy, columns["observation"]
        count, step = len(now), self._environments
        if self._own is None:
            self._columns = {name: self._empty_like(one) for name, one in columns.items()}
            self._own = OwnNext(now)
        self._link_newest(now[:step])
        rows = (self._head + numpy.arange(count)) % self.capacity
        self._own.remove(rows[(self._flags[rows] & OWN_NEXT) != 0])
        own = numpy.ones(count, dtype=bool)
        if count > step:
            own[:-step] = ~_same_rows(later[:-step], now[step:])
        for name, one in columns.items():
            self._columns[name][rows] = one
        flags = numpy.where(terminated, TERMINATED, 0) | numpy.where(truncated, TRUNCATED, 0)
        self._flags[rows] = flags | numpy.where(own, OWN_NEXT, 0)
        self._own.put(rows[own], later[own])
        if self._tree is not None:
            self._tree.set(rows, self._highest)
        self._head = int((rows[-1] + 1) % self.capacity)
        self._size = min(self.capacity, self._size + count)

    def _link_newest(self, now: Any) -> None:
        """The newest rows have their own next observations; those that come now as observations are dropped."""
        if self._size == 0 or self._own is None:
            return
        newest = (self._head - self._environments + self._numpy.arange(len(now))) % self.capacity
        linked = newest[_same_rows(self._own.get(newest), now)]
        self._own.remove(linked)
        self._flags[linked] &= 255 - OWN_NEXT

    def _empty_like(self, one: Any) -> Any:
        return self._numpy.empty((self.capacity, *one.shape[1:]), dtype=one.dtype)

    def _check(self, columns: dict[str, Any], later: Any, ends: tuple[Any, Any]) -> None:
        now = columns["observation"]
        arrays = (*columns.values(), later, *ends)
        # Of no dimension: one number where there should be one for each transition.
        lengths = {len(one) if one.ndim else 0 for one in arrays}
        if len(lengths) != 1 or 0 in lengths or len(now) % self._environments:
            fact = f"transitions must be arrays of one length, a multiple of {self._environments}"
            raise BadValue(fact, "pass one of each for every environment and step")
        if any(one.shape != (len(now),) for one in ends):
            fact = "terminated and truncated must hold one truth value for each transition"
            raise BadValue(fact, "pass them as the environment gives them")
        if (later.shape, later.dtype) != (now.shape, now.dtype):
            fact = "next_observation must have the shape and type of observation"
            raise BadValue(fact, "pass both as the environment gives them")
        for name, column in self._columns.items():
            if (column.shape[1:], column.dtype) != (columns[name].shape[1:], columns[name].dtype):
                fact = f"{name} must stay {column.dtype} of shape {column.shape[1:]}"
                raise BadValue(fact, "pass what was passed first, or make another replay buffer")


def _numbers(name: str, value: Any) -> Any:
    """An array of numbers; objects of Python would take memory that no limit counts."""
    import numpy

    try:
        found = numpy.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        found = None
    if found is None or found.dtype.kind not in "biufc":
        raise BadType(
            f"{name} must be numbers, not {shown(value)}", "pass an array of numbers on the host"
        )
    return found


def _check_place(store: Any, name: Any) -> None:
    if not isinstance(store, BufferStore):
        fact = f"store must be a store of buffers, not {shown(store)}"
        raise BadType(fact, 'pass plimsoll.buffers(folder="kept")')
    text("name", name, "replay")


def _same_rows(one: Any, other: Any) -> Any:
    """Which rows are the same to the bit: 0.0 and -0.0 are not, and NaN is itself."""
    import numpy

    bits = [
        numpy.ascontiguousarray(rows).view(f"u{rows.dtype.itemsize}").reshape(len(rows), -1)
        for rows in (one, other)
    ]
    return (bits[0] == bits[1]).all(axis=1)


def replay(
    capacity: int, *, environments: int = 1, priority: float | None = None, seed: int | None = None
) -> ReplayBuffer:
    """Transitions in NumPy arrays, each observation kept once: about 40 to 50 % less memory.

        memory = plimsoll.replay(1_000_000, priority=0.6)
        memory.add(observation, action, reward, next_observation, terminated, truncated)
        batch = memory.sample(256)
        memory.update_priorities(batch["row"], errors)

    Nothing is lost: what comes back is what was added, to the bit. `priority` is the exponent of
    prioritized sampling; without it sampling is uniform. `save` and `restore` use a `plimsoll.buffers` store.
    """
    return ReplayBuffer(capacity, environments, priority, seed)
