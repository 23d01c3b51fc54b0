"""Libraries that open files themselves, in C or Rust, and know nothing of Python's `open`.

Each call is listed with those of its arguments that are paths: what the program wrote is found where it lies, and
what they write goes to the trace's own folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import wraps
from typing import Any, Callable, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit, urlunsplit

from ...standins.imports import when_imported
from ...standins.patches import Patches
from .by_number import place_of
from .overlay import Overlay, is_path

# Files that are read and written in place, such as databases, are copied up to this size. A larger one is one of
# the user's data sets, which is only read: copying it would fill the disk.
_LARGEST_COPY = 256 << 20
# Of SQLite's authorizer.
_ATTACH = 24


class Path(NamedTuple):
    """An argument that is a path: its place among the arguments (`self` is the first) and its name."""

    place: int
    name: str
    use: str = "read"
    # For `use="mode"`: the argument that says whether it is written, and what holds where it is not given.
    mode: tuple[int, str, str] = (1, "mode", "r")


def _read(place: int, name: str) -> Path:
    return Path(place, name)


def _written(place: int, name: str) -> Path:
    return Path(place, name, "written")


# The module that is waited for, the class in it (or none), the function, and its paths.
_CALLS: tuple[tuple[str, str, str, tuple[Path, ...]], ...] = (
    ("torch", "", "from_file", (Path(0, "filename", "shared"),)),
    ("torch", "UntypedStorage", "from_file", (Path(0, "filename", "shared"),)),
    ("torchvision.io.image", "", "read_file", (_read(0, "path"),)),
    ("torchvision.io.image", "", "write_file", (_written(0, "filename"),)),
    ("torchvision.io.image", "", "write_png", (_written(1, "filename"),)),
    ("torchvision.io.image", "", "write_jpeg", (_written(1, "filename"),)),
    ("torchvision.io", "", "read_file", (_read(0, "path"),)),
    ("torchvision.io", "", "write_file", (_written(0, "filename"),)),
    ("torchvision.io", "", "write_png", (_written(1, "filename"),)),
    ("torchvision.io", "", "write_jpeg", (_written(1, "filename"),)),
    ("tokenizers", "Tokenizer", "train", (_read(1, "files"),)),
    ("tokenizers", "Tokenizer", "save", (_written(1, "path"),)),
    ("tokenizers", "Tokenizer", "from_file", (_read(0, "path"),)),
    ("tokenizers.models", "BPE", "from_file", (_read(0, "vocab"), _read(1, "merges"))),
    ("tokenizers.models", "BPE", "read_file", (_read(0, "vocab"), _read(1, "merges"))),
    ("tokenizers.models", "WordPiece", "from_file", (_read(0, "vocab"),)),
    ("tokenizers.models", "WordPiece", "read_file", (_read(0, "vocab"),)),
    ("tokenizers.models", "WordLevel", "from_file", (_read(0, "vocab"),)),
    ("tokenizers.models", "WordLevel", "read_file", (_read(0, "vocab"),)),
    *(
        ("tokenizers.implementations", name, "__init__", (_read(1, "vocab"), _read(2, "merges")))
        for name in ("ByteLevelBPETokenizer", "CharBPETokenizer", "SentencePieceBPETokenizer")
    ),
    ("tokenizers.implementations", "BertWordPieceTokenizer", "__init__", (_read(1, "vocab"),)),
    ("safetensors.numpy", "", "save_file", (_written(1, "filename"),)),
    *(
        (module, "", "connect", (Path(0, "database", "database"),))
        for module in ("sqlite3", "sqlite3.dbapi2")
    ),
    ("pyarrow", "", "memory_map", (Path(0, "path", "mode"),)),
    ("pyarrow", "", "OSFile", (Path(0, "path", "mode"),)),
    ("pyarrow", "", "input_stream", (_read(0, "source"),)),
    ("pyarrow", "", "output_stream", (_written(0, "source"),)),
    ("pyarrow.parquet", "", "read_table", (_read(0, "source"),)),
    ("pyarrow.parquet", "", "read_schema", (_read(0, "where"),)),
    ("pyarrow.parquet", "", "read_metadata", (_read(0, "where"),)),
    ("pyarrow.parquet", "", "write_table", (_written(1, "where"),)),
    ("pyarrow.parquet", "ParquetFile", "__init__", (_read(1, "source"),)),
    ("pyarrow.parquet", "ParquetWriter", "__init__", (_written(1, "where"),)),
    ("pyarrow.csv", "", "read_csv", (_read(0, "input_file"),)),
    ("pyarrow.csv", "", "write_csv", (_written(1, "output_file"),)),
    ("pyarrow.json", "", "read_json", (_read(0, "input_file"),)),
    ("h5py", "File", "__init__", (Path(1, "name", "mode", (2, "mode", "r")),)),
    ("soundfile", "SoundFile", "__init__", (Path(1, "file", "mode", (2, "mode", "r")),)),
    ("cv2", "", "imread", (_read(0, "filename"),)),
    ("cv2", "", "imwrite", (_written(0, "filename"),)),
    ("cv2", "", "VideoCapture", (_read(0, "filename"),)),
    ("cv2", "", "VideoWriter", (_written(0, "filename"),)),
    ("faiss", "", "read_index", (_read(0, "fname"),)),
    ("faiss", "", "write_index", (_written(1, "fname"),)),
    ("sentencepiece", "SentencePieceProcessor", "LoadFromFile", (_read(1, "arg"),)),
    (
        "sentencepiece",
        "SentencePieceTrainer",
        "Train",
        (_read(1, "input"), _written(2, "model_prefix")),
    ),
    (
        "sentencepiece",
        "SentencePieceTrainer",
        "train",
        (_read(1, "input"), _written(2, "model_prefix")),
    ),
    ("lmdb", "", "open", (Path(0, "path", "database"),)),
)


def install(patches: Patches, overlay: Overlay) -> None:
    for module, owner, name, paths in _CALLS:
        when_imported(module, _replacing(patches, overlay, owner, name, paths))
    for module in ("sqlite3", "sqlite3.dbapi2"):
        when_imported(module, lambda held: _attach_nothing_real(patches, overlay, held))


def _attach_nothing_real(patches: Patches, overlay: Overlay, module: Any) -> None:
    """What a statement attaches is named in SQL, and cannot be replaced: SQLite refuses it."""
    connect = module.connect

    def permitted(action: int, name: Any, *_: Any) -> int:
        harmless = name in ("", ":memory:") or (name is not None and overlay.leaves_alone(name))
        return 1 if action == _ATTACH and not harmless else 0

    @wraps(connect)
    def connected(*args: Any, **kwargs: Any) -> Any:
        connection = connect(*args, **kwargs)
        connection.set_authorizer(permitted)
        return connection

    patches.set(module, "connect", connected)


def _replacing(
    patches: Patches, overlay: Overlay, owner: str, name: str, paths: tuple[Path, ...]
) -> Callable[[Any], None]:
    def replace(module: Any) -> None:
        holder = getattr(module, owner, None) if owner else module
        call = getattr(holder, name, None)
        if call is None:
            # Not in this version of the library.
            return
        found = _found(overlay, call, paths)
        bound = isinstance(holder, type) and _is_static(holder, name)
        patches.set(holder, name, staticmethod(found) if bound else found)

    return replace


def _is_static(holder: type, name: str) -> bool:
    """Whether `self` is not among its arguments, or already given."""
    for one in holder.__mro__:
        if name in vars(one):
            held = vars(one)[name]
            return isinstance(held, (staticmethod, classmethod)) or type(held).__name__ in (
                "classmethod_descriptor",
                "builtin_function_or_method",
            )
    return False


def _found(overlay: Overlay, call: Any, paths: tuple[Path, ...]) -> Any:
    @wraps(call)
    def found(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for path in paths:
            if path.name in kwargs:
                kwargs[path.name] = _placed(overlay, path, kwargs[path.name], args, kwargs)
            elif path.place < len(given):
                given[path.place] = _placed(overlay, path, given[path.place], args, kwargs)
        return call(*given, **kwargs)

    return found


def _placed(overlay: Overlay, path: Path, value: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_placed(overlay, path, one, args, kwargs) for one in value])
    if not is_path(value):
        return value
    if path.use == "read":
        place = overlay.readable(value)
    elif path.use == "written":
        place = overlay.writable(value)
    elif path.use == "mode":
        place = place_of(overlay, value, _mode(path, args, kwargs))
    elif path.use == "shared":
        shared = kwargs.get("shared", args[1] if len(args) > 1 else False)
        place = overlay.writable(value, keep=True) if shared else overlay.readable(value)
    else:
        place = _database(overlay, value, kwargs)
    # Those in C take texts only, where they take paths of Python at all.
    return place if place is value else os.fspath(place)


def _mode(path: Path, args: Any, kwargs: Mapping[str, Any]) -> Any:
    place, name, otherwise = path.mode
    return kwargs.get(name, args[place] if len(args) > place else otherwise)


def _database(overlay: Overlay, value: Any, kwargs: Mapping[str, Any]) -> Any:
    """A file that is read and written in place; no file has a name such as `:memory:`."""
    name = os.fsdecode(value)
    if not name or name.startswith(":"):
        return value
    if kwargs.get("uri") and name.startswith("file:"):
        parts = urlsplit(name)
        path, query = unquote(parts.path), parse_qs(parts.query)
        if not path or query.get("mode") == ["memory"]:
            return value
        reads = query.get("mode") == ["ro"] or "immutable" in query
        place = _database(overlay, path, {"readonly": reads})
        return urlunsplit(("file", "", quote(os.path.abspath(place)), parts.query, parts.fragment))
    if kwargs.get("readonly") or _is_large(overlay.readable(value)):
        return overlay.readable(value)
    return overlay.writable(value, keep=True)


def _is_large(path: Any) -> bool:
    try:
        return os.path.getsize(path) > _LARGEST_COPY
    except OSError:
        return False
