"""Files of Python's packages: nothing is looked up for them until a program changes one."""

import os
import sysconfig
import tempfile
import unittest
from unittest import mock

from plimsoll.tracing.programs.files import overlay

PACKAGES = sysconfig.get_paths()["purelib"]


class InstalledFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.overlay = overlay.Overlay(folder.name)

    def looked_up(self):
        patched = mock.patch.object(overlay, "is_of_traces", return_value=False)
        self.addCleanup(patched.stop)
        return patched.start()

    def test_no_marks_of_other_traces_are_read_there(self):
        marks = self.looked_up()
        for name in ("torch/nn/modules/linear.py", "torch", "not there"):
            path = os.path.join(PACKAGES, name)
            self.assertIs(self.overlay.readable(path), path)
        names = {entry.name for entry in self.overlay.listed(os.path.join(PACKAGES, "torch"))}
        self.assertIn("nn", names)
        marks.assert_not_called()
        self.overlay.readable(os.path.join(tempfile.gettempdir(), "out"))
        marks.assert_called_once()

    def test_what_a_program_writes_there_is_found_and_what_it_removes_is_not(self):
        cache, package = os.path.join(PACKAGES, "cache.txt"), os.path.join(PACKAGES, "torch")
        with open(self.overlay.writable(cache), "w", encoding="utf-8") as file:
            file.write("written")
        self.assertTrue(self.overlay.exists(cache))
        self.assertIn("cache.txt", [entry.name for entry in self.overlay.listed(PACKAGES)])
        self.overlay.remove(package)
        self.assertFalse(self.overlay.exists(os.path.join(package, "nn")))
        self.assertNotIn("torch", [entry.name for entry in self.overlay.listed(PACKAGES)])

    def test_a_folder_around_them_may_be_removed(self):
        self.overlay.remove(os.path.dirname(PACKAGES))
        self.assertFalse(self.overlay.exists(os.path.join(PACKAGES, "torch")))


if __name__ == "__main__":
    unittest.main()
