"""Saved tensors that give way: copied to the host in the order of their age, and back before they are needed."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable

import torch

from .card import Card
from .host_pool import HostPool, Room

# Smaller ones are not worth a copy.
LEAST_BYTES = 2**20
# What lies behind others is their own affair.
_PLAIN = (torch.Tensor, torch.nn.Parameter)
# The allocator is asked what it holds after this share of the limit was saved or asked for; that takes it a while.
# In between, what autograd saves and gives back is counted.
ASKED_AFTER = 1 / 32
LEAST_ASKED_AFTER = 16 * 2**20
# Fetched ahead of their use, as a share of the limit.
AHEAD = 1 / 8


class Saved:
    """One tensor that autograd saved. It lies on the card while `tensor` is there."""

    __slots__ = ("__weakref__", "changed", "entry", "shape", "tensor", "version")

    def __init__(self, entry: Entry | None, tensor: torch.Tensor) -> None:
        self.entry = entry
        self.tensor: torch.Tensor | None = tensor
        self.version = tensor._version
        self.shape: Any = None
        self.changed: str | None = None

    def leave(self) -> None:
        """Drops the reference to the memory of the card."""
        tensor = self.tensor
        if tensor is None:
            return
        self.changed = self.changed or changed_since(tensor, self.version)
        self.shape = tensor.dtype, tensor.storage_offset(), tensor.size(), tensor.stride()
        self.tensor = None


class Entry:
    """One storage, and all that autograd saved of it."""

    __slots__ = (
        "__weakref__",
        "bytes",
        "flat",
        "is_on_card",
        "mark_back",
        "mark_out",
        "number",
        "room",
        "saved",
        "store",
    )

    def __init__(self, store: SavedStore, number: int, size: int) -> None:
        self.store = store
        self.number = number
        self.bytes = size
        self.is_on_card = True
        self.saved: list[weakref.ref[Saved]] = []
        # What came back, as bytes.
        self.flat: torch.Tensor | None = None
        self.room: Room | None = None
        self.mark_out: Any = None
        self.mark_back: Any = None

    def __del__(self) -> None:
        self.store.gone(self)

    def living(self) -> torch.Tensor | None:
        """A tensor on the card that has this storage."""
        if self.flat is not None:
            return self.flat
        for one in self.saved:
            saved = one()
            if saved is not None and saved.tensor is not None:
                return saved.tensor
        return None


class SavedStore:
    """What autograd has saved on one card. `limit` and `headroom` may change at any time."""

    def __init__(self, card: Card, pool: HostPool, limit: int, headroom: int) -> None:
        self.card, self.pool = card, pool
        self.limit, self.headroom = limit, headroom
        # Bytes to spill as soon as they are saved, whatever the card still has.
        self.quota = 0
        self.fixed: set[int] = set()
        self.watcher: Callable[[int, int], None] | None = None
        # At the first tensor that is saved after a backward, and at the first that a backward asks for.
        self.forward_begins: Callable[[], None] | None = None
        self.backward_begins: Callable[[], None] | None = None
        self.asked: Callable[[], None] | None = None
        self.spilled = 0
        self.bytes_out = self.bytes_back = 0
        # All that autograd has saved here, and the part of it that lies on the card.
        self.saved_bytes = self.here_bytes = 0
        self.is_idle = False
        # The first tensor that is saved begins a forward.
        self.is_backward = True
        self._by_address: dict[int, weakref.ref[Entry]] = {}
        self._number = 0
        # On the card, and spilled, by number: the oldest first.
        self._here: list[tuple[int, weakref.ref[Entry]]] = []
        self._away: list[tuple[int, weakref.ref[Entry]]] = []
        self._since = 0
        # What the card holds beside all that is counted here.
        self._beside = 0
        # Spilled beyond the quota, late: since the last forward, and the most of any.
        self._late = 0
        self.max_late = 0
        self._ahead = 0
        self._used: Entry | None = None
        self._lock = threading.RLock()

    # What autograd calls.

    def pack(self, tensor: torch.Tensor) -> Any:
        """Of autograd: keeps the tensor's version, since with hooks autograd does not look at it."""
        if type(tensor) not in _PLAIN or not self.card.has(tensor):
            return Saved(None, tensor)
        if tensor.layout is not torch.strided:
            return Saved(None, tensor)
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        if size < LEAST_BYTES:
            return Saved(None, tensor)
        address = storage.data_ptr()
        if address in self.fixed or _is_weight(tensor):
            return Saved(None, tensor)
        with self._lock:
            known = self._by_address.get(address)
            entry = None if known is None else known()
            if entry is not None and not self._is_same(entry, tensor):
                entry = None
            if entry is None:
                entry = self._add(address, size)
            # One of our own, so that a storage that the program refers to, too, is known by its count.
            made = Saved(entry, tensor.detach())
            entry.saved.append(weakref.ref(made))
            if len(entry.saved) == 1:
                self._grown(entry)
            return made

    def knows(self, address: int) -> bool:
        """Whether autograd has saved this storage already."""
        known = self._by_address.get(address)
        return address in self.fixed or (known is not None and known() is not None)

    def unpack(self, saved: Saved) -> torch.Tensor:
        entry = saved.entry
        if entry is None:
            tensor = saved.tensor
            if tensor is None:
                raise RuntimeError("a saved tensor is neither on the card nor on the host")
            changed = changed_since(tensor, saved.version)
            if changed is not None:
                raise RuntimeError(changed)
            return tensor
        with self._lock:
            return self._unpack(saved, entry)

    def _unpack(self, saved: Saved, entry: Entry) -> torch.Tensor:
        if not self.is_backward:
            self.is_backward = True
            if self.backward_begins is not None:
                self.backward_begins()
        if saved.tensor is not None:
            changed = changed_since(saved.tensor, saved.version)
            if changed is not None:
                raise RuntimeError(changed)
        elif saved.changed is not None:
            raise RuntimeError(saved.changed)
        if saved.tensor is None and entry.flat is None:
            self._fetch(entry)
        if entry.mark_back is not None:
            self._arrived(entry)
        self._used = entry
        self._look(entry.bytes)
        self._fetch_ahead()
        self._used = None
        if saved.tensor is not None:
            return saved.tensor
        flat = entry.flat
        if flat is None:
            raise RuntimeError("a spilled tensor did not come back")
        dtype, offset, size, stride = saved.shape
        view = torch.empty(0, dtype=dtype, device=flat.device)
        return view.set_(flat.untyped_storage(), offset, size, stride)

    # What is on the card, and what leaves it.

    def _is_same(self, entry: Entry, tensor: torch.Tensor) -> bool:
        """Not where the storage was changed after a copy of it had begun, or left."""
        if entry.flat is not None:
            return False
        living = entry.living()
        if living is None:
            return False
        return entry.room is None or all(
            one is None or one.tensor is None or one.version == tensor._version
            for one in (ref() for ref in entry.saved)
        )

    def _add(self, address: int, size: int) -> Entry:
        if self.is_backward:
            self.is_backward = False
            self._late = 0
            self._tidy()
            if self.forward_begins is not None:
                self.forward_begins()
        self._number += 1
        entry = Entry(self, self._number, size)
        known = weakref.ref(entry)
        self._by_address[address] = known
        self._here.append((self._number, known))
        self.saved_bytes += size
        self._count(size)
        if self.watcher is not None:
            self.watcher(address, size)
        return entry

    def _tidy(self) -> None:
        self._here = [one for one in self._here if one[1]() is not None]
        self._away = [one for one in self._away if one[1]() is not None]
        self._by_address = {key: ref for key, ref in self._by_address.items() if ref() is not None}

    def gone(self, entry: Entry) -> None:
        """Autograd has no use for it any more."""
        self.saved_bytes -= entry.bytes
        if entry.is_on_card:
            self._count(-entry.bytes)
        if entry.room is not None:
            self.spilled -= entry.bytes
        # Its memory is free now: the program's stream, and the allocator that follows it, must not use it, or give it
        # back, before the copies have ended.
        if entry.mark_back is not None:
            self._arrived(entry)
        if entry.mark_out is not None:
            self.card.wait(entry.mark_out)

    def _arrived(self, entry: Entry) -> None:
        self.card.wait(entry.mark_back)
        entry.mark_back = None
        self._ahead -= entry.bytes

    def _count(self, change: int) -> None:
        self.here_bytes += change
        holds = getattr(self.card, "holds", None)
        if holds is not None:
            holds(change)

    def _grown(self, entry: Entry) -> None:
        if self.is_idle:
            return
        if self.spilled + entry.bytes <= self.quota:
            self._begin(entry)
        self._look(entry.bytes)

    def _look(self, size: int) -> None:
        """Makes room where the card is too full."""
        self._since += size
        if self._since >= max(LEAST_ASKED_AFTER, self.limit * ASKED_AFTER):
            self.look()
        over = self.held() + self.headroom - self.limit
        if over > 0:
            self.free(over)

    def look(self) -> None:
        """Asks the allocator."""
        self._since = 0
        self._beside = self.card.held() - self.here_bytes
        if self.asked is not None:
            self.asked()

    def held(self) -> int:
        """Bytes of all tensors on the card, as far as is known."""
        return self._beside + self.here_bytes

    def free(self, wanted: int) -> int:
        """Spills the oldest until so many bytes are free, in the order of the stream; the bytes that were freed."""
        freed = 0
        with self._lock:
            stay: list[tuple[int, weakref.ref[Entry]]] = []
            done = 0
            for numbered in self._here:
                if freed >= wanted:
                    break
                done += 1
                entry = numbered[1]()
                if entry is None or not entry.is_on_card:
                    continue
                # One that was fetched is needed next.
                is_needed = entry.mark_back is not None or entry is self._used
                if not is_needed and self._is_ours_alone(entry) and self._leave(entry):
                    freed += entry.bytes
                else:
                    stay.append(numbered)
            self._here[:done] = stay
        return freed

    def make_room(self, size: int) -> None:
        """Before the program asks for so much."""
        self.look()
        over = self.held() + size + self.headroom - self.limit
        if over > 0:
            self.free(over)

    def _begin(self, entry: Entry) -> bool:
        """Begins the copy to the host; the tensors stay until `_leave`."""
        living = entry.living()
        if entry.room is not None:
            return True
        if living is None:
            return False
        room = self.pool.take(entry.bytes)
        if room is None:
            return False
        entry.mark_out = self.card.out(_as_bytes(living, entry.bytes), room.tensor)
        entry.room = room
        self.spilled += entry.bytes
        self.bytes_out += entry.bytes
        return True

    def _leave(self, entry: Entry) -> bool:
        is_late = entry.room is None
        if not self._begin(entry):
            return False
        if is_late:
            self._late += entry.bytes
            self.max_late = max(self.max_late, self._late)
        if entry.mark_out is not None:
            self.card.wait(entry.mark_out)
            entry.mark_out = None
        entry.flat = None
        for one in entry.saved:
            saved = one()
            if saved is not None:
                saved.leave()
        entry.is_on_card = False
        self._count(-entry.bytes)
        _insert(self._away, entry)
        return True

    def _is_ours_alone(self, entry: Entry) -> bool:
        """True if memory becomes free with autograd's tensors: no other object refers to the storage."""
        if entry.flat is not None:
            return use_count(entry.flat) <= 1
        tensors = [saved.tensor for saved in (one() for one in entry.saved) if saved is not None]
        held = [tensor for tensor in tensors if tensor is not None]
        return bool(held) and use_count(held[0]) <= len({id(tensor) for tensor in held})

    # The way back.

    def _fetch(self, entry: Entry) -> None:
        room = entry.room
        if room is None:
            raise RuntimeError("a spilled tensor has no copy on the host")
        over = self.held() + entry.bytes - self.limit
        if over > 0:
            self.free(over)
        entry.flat, entry.mark_back = self.card.back(room.tensor, entry.mark_out)
        self._ahead += entry.bytes
        self.bytes_back += entry.bytes
        entry.is_on_card = True
        self._count(entry.bytes)
        _insert(self._here, entry)

    def _fetch_ahead(self) -> None:
        most = self.limit * AHEAD
        while self._away and self._ahead < most:
            entry = self._away[-1][1]()
            if entry is None or entry.is_on_card:
                self._away.pop()
                continue
            if self.held() + entry.bytes > self.limit - self.headroom:
                return
            self._away.pop()
            self._fetch(entry)


def _insert(entries: list[tuple[int, weakref.ref[Entry]]], entry: Entry) -> None:
    """Into a list in the order of numbers."""
    low, high = 0, len(entries)
    while low < high:
        middle = (low + high) // 2
        if entries[middle][0] < entry.number:
            low = middle + 1
        else:
            high = middle
    entries.insert(low, (entry.number, weakref.ref(entry)))


def changed_since(tensor: torch.Tensor, version: int) -> str | None:
    """The words of PyTorch where a tensor was changed in place after it was saved; None where it was not."""
    now = tensor._version
    if now == version:
        return None
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{tensor.type()} {list(tensor.shape)}] is at version {now}; expected version {version} instead. "
        "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True)."
    )


def use_count(tensor: torch.Tensor) -> int:
    """How many tensors refer to the storage."""
    storage = tensor.untyped_storage()
    # One of them is the object that was just made.
    return int(torch._C._storage_Use_Count(storage._cdata)) - 1


def _as_bytes(tensor: torch.Tensor, size: int) -> torch.Tensor:
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return flat.set_(tensor.untyped_storage(), 0, (size,))


def _is_weight(tensor: torch.Tensor) -> bool:
    if tensor.is_leaf and tensor.requires_grad:
        return True
    base = tensor._base
    return base is not None and base.is_leaf and base.requires_grad
