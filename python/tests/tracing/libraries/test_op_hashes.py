"""Ops are found in tables by where they lie, from the first table on."""

import subprocess
import sys
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3]
SHOWN = """
op = torch.ops.aten.add.Tensor
assert {op: 7}[op] == 7 and op in {op} and torch.ops.aten.mul.Tensor not in {op}
from torch._decomp import decomposition_table
assert torch.ops.aten.silu_backward.default in decomposition_table
assert (torch.empty(3, device="meta") + 1).shape == (3,)
print(hash(op) == object.__hash__(op))
"""
ASKED = "from plimsoll.tracing.imports.op_hashes import hash_by_place as asked; asked()"


def shown(test, *lines):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "\n".join((*lines, SHOWN))],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
        check=False,
    )
    test.assertEqual(done.returncode, 0, done.stderr)
    return done.stdout.strip()


class OpHashes(unittest.TestCase):
    def test_an_op_is_found_by_where_it_lies(self):
        self.assertEqual(shown(self, ASKED, "import torch"), "True")

    def test_tables_of_a_torch_that_is_imported_stay_as_they_are(self):
        self.assertEqual(shown(self, "import torch", ASKED), "False")


if __name__ == "__main__":
    unittest.main()
