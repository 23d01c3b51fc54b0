"""Names of PyTorch that are not public: the tracer uses those of its list, and this version has them."""

import ast
import importlib
import json
import os
import unittest
import warnings

import torch

from tracing import PACKAGE

TRACER = os.path.join(PACKAGE, "plimsoll_trace")
with open(os.path.join(TRACER, "private-names.json"), encoding="utf-8") as _file:
    LIST = json.load(_file)
# Methods of the tracer that take an owner and the name of one of its attributes.
_BY_NAME = ("set", "add", "object")


def is_private(name):
    return any(part.startswith("_") and not part.endswith("__") for part in name.split("."))


def private_names(text):
    """The private names of torch in a source, as they are imported, looked up and replaced."""
    tree = ast.parse(text)
    known, found = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.partition(".")[0] == "torch":
                    known[one.asname or "torch"] = one.name if one.asname else "torch"
                    found.add(one.name)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            for one in node.names:
                known[one.asname or one.name] = f"{node.module}.{one.name}"
                found.add(f"{node.module}.{one.name}")

    def whole(node):
        if isinstance(node, ast.Name):
            return known.get(node.id)
        before = whole(node.value) if isinstance(node, ast.Attribute) else None
        return before and f"{before}.{node.attr}"

    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            found.add(whole(node) or "")
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _BY_NAME:
            owner, name = [*node.args, None, None][:2]
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and whole(owner):
                found.add(f"{whole(owner)}.{name.value}")
    # Parts of a graph that is lowered are there only while it is.
    return {n for n in found if is_private(n) and ".V.graph." not in n}


def is_there(name):
    parts = name.split(".")
    # A package may have a function of the same name as one of its modules.
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        try:
            for part in parts[count:]:
                found = getattr(found, part)
        except AttributeError:
            return False
        return True
    return False


class PrivateNames(unittest.TestCase):
    def test_the_list_has_those_that_the_tracer_uses(self):
        used = set()
        for folder, _, files in os.walk(TRACER):
            for name in files:
                if name.endswith(".py"):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        used |= private_names(file.read())
        self.assertEqual(sorted(used), LIST["names"])

    def test_a_name_is_found_however_it_is_used(self):
        text = (
            "import torch, torch._a\nfrom torch._b import c\nfrom torch import d as e\n"
            "torch.f._g()\ne._h\npatches.set(torch.i, '_j', 1)\ntorch.public.name\nother._k\n"
        )
        names = ["torch._a", "torch._b.c", "torch.d._h", "torch.f._g", "torch.i._j"]
        self.assertEqual(sorted(private_names(text)), names)

    def test_this_version_has_all_but_those_that_the_list_says(self):
        version = ".".join(torch.__version__.split(".")[:2])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            missing = [name for name in LIST["names"] if not is_there(name)]
        if version in LIST["missing"]:
            self.assertEqual(missing, LIST["missing"][version])
        else:
            elsewhere = {name for names in LIST["missing"].values() for name in names}
            self.assertEqual(set(missing) - elsewhere, set())
