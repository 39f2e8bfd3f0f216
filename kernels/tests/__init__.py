"""Tests of the reference kernels: `pytest kernels/tests`."""
