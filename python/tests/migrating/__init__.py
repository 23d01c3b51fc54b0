"""Tests of `plimsoll migrate`'s reader."""
