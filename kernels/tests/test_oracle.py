"""The oracle and the comparison are right themselves: numbers by hand, and answers to refuse."""

import math

import numpy as np
import pytest

from kernels.tests.oracle import (
    DTYPES,
    assert_close,
    assert_lse_close,
    dtype_called,
    oracle,
    oracle_softmax,
    strictly,
)


def test_oracle_by_hand():
    # Two keys with scores 0 and log 3, so weights 1/4 and 3/4 of the values 8 and 16; one query
    # sees both, the one before it only the first, the one before that none.
    q = np.full((1, 2, 3, 1), 2.0)
    k = np.array([0.0, math.log(3.0)]).reshape(1, 1, 2, 1)
    v = np.array([8.0, 16.0]).reshape(1, 1, 2, 1)
    output, lse = oracle(q, k, v, causal=True, scale=0.5)
    for h in range(2):
        assert np.allclose(output[0, h, :, 0], [0, 8, 14], rtol=1e-15, atol=0)
        assert np.allclose(lse[0, h], [-np.inf, 0, math.log(4)], rtol=1e-15, atol=0)
    # Without the mask every row is like the last.
    output, _ = oracle(q, k, v, scale=0.5)
    assert np.allclose(output, 14, rtol=1e-15, atol=0)


def test_oracle_heads_by_hand():
    q = np.zeros((1, 4, 1, 1))
    k = np.zeros((1, 2, 3, 1))
    v = np.array([1.0, 2.0]).reshape(1, 2, 1, 1) * np.ones((1, 2, 3, 1))
    assert oracle(q, k, v)[0].ravel().tolist() == [1, 1, 2, 2]


def test_oracle_softmax_by_hand():
    s = np.array([[0.0, math.log(3.0)], [-np.inf, 7.0], [-np.inf, -np.inf]])
    assert np.allclose(oracle_softmax(s), [[0.25, 0.75], [0, 1], [0, 0]], rtol=1e-15, atol=0)


EXPECTED = np.array([[3.0, 4.0], [0.0, 0.0], [0.3, 0.4]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_assert_close_accepts_rounding(dtype):
    assert_close(EXPECTED.astype(dtype_called(dtype)), EXPECTED, dtype, "rounded")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("row", "value", "words"),
    [
        (0, [3, np.nan], "not finite"),
        (0, [np.inf, 4], "not finite"),
        (1, [0, 1e-7], "must be 0"),
        (0, [3.2, 4], "relative L2 error"),
        (2, [0.312, 0.4], "worst row"),
        (slice(None), [0, 0], "relative L2 error"),
    ],
)
def test_assert_close_refuses(row, value, words, dtype):
    answer = EXPECTED.astype(dtype_called(dtype))
    answer[row] = value
    # A small row far off is small in the whole: where the bound on the whole sees it first, fine.
    with pytest.raises(AssertionError, match=f"{words}|relative L2" if row == 2 else words):
        assert_close(answer, EXPECTED, dtype, "answer")


def test_assert_close_refuses_other_shapes_and_dtypes():
    with pytest.raises(AssertionError, match=r"expected \(3, 2\)"):
        assert_close(EXPECTED[:2], EXPECTED, "float64", "answer")
    with pytest.raises(AssertionError, match="expected float32"):
        assert_close(EXPECTED, EXPECTED, "float32", "answer")
    with pytest.raises(AssertionError, match="oracle itself"):
        assert_close(EXPECTED, EXPECTED * np.nan, "float64", "answer")


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        ([-5e4, 1.0], "wrong rows"),
        ([-np.inf, np.nan], "LSE off"),
        ([-np.inf, -np.inf], "wrong rows"),
        ([-np.inf, 1.001], "LSE off"),
    ],
)
def test_assert_lse_close_refuses(actual, words):
    with pytest.raises(AssertionError, match=words):
        assert_lse_close(np.array(actual), np.array([-np.inf, 1.0]), "float64", "answer")


def test_strictly_refuses_warnings_and_writes():
    def write(x):
        x[...] = 1

    with pytest.raises(FloatingPointError):
        strictly(np.log, np.zeros(1))
    with pytest.raises(AssertionError, match="wrote to its arguments"):
        strictly(write, np.zeros(1))
