"""A second oracle, by other hands: torch's scaled_dot_product_attention, in float64 on the CPU.

The mask is always written out. torch's own `is_causal` stands top left, ours bottom right, so
that it would be wrong wherever the lengths differ. This file alone needs torch.
"""

import numpy as np
import pytest
import torch

from kernels import naive
from kernels.tests.oracle import assert_close, draw, strictly


@pytest.mark.parametrize("scale", [None, 0.0, 0.7])
@pytest.mark.parametrize(("q_len", "k_len"), [(1, 1), (1, 70), (5, 5), (3, 70), (64, 200)])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(2, 2), (6, 2), (4, 1)])
@pytest.mark.parametrize("causal", [False, True])
def test_against_torch(causal, num_heads, num_kv_heads, q_len, k_len, scale):
    seed = 71
    q, k, v = draw(seed, (2, num_heads, q_len, 16), (2, num_kv_heads, k_len, 16), "float64")
    mask = torch.ones(q_len, k_len, dtype=torch.bool)
    if causal:
        # The last row sees all keys, each row above it one fewer.
        for i in range(q_len):
            mask[i, k_len - (q_len - 1 - i) :] = False
    kv = [torch.from_numpy(np.repeat(x, num_heads // num_kv_heads, axis=1)) for x in (k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(
        torch.from_numpy(q), *kv, attn_mask=mask, scale=scale
    ).numpy()
    actual = strictly(naive.attention, q, k, v, causal=causal, scale=scale)
    assert_close(actual, expected, "float64", f"seed {seed}, torch")
    scores = torch.from_numpy(q) @ kv[0].mT * (16**-0.5 if scale is None else scale)
    expected_lse = torch.logsumexp(scores.masked_fill(~mask, -torch.inf), dim=-1).numpy()
    lse = strictly(naive.attention_lse, q, k, causal=causal, scale=scale)
    assert np.max(np.abs(lse - expected_lse)) < 1e-12, f"seed {seed}, torch.logsumexp"


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_tensors_are_refused(requires_grad, name):
    # Neither read as NumPy would read them, nor given back without their gradient.
    arrays = dict(zip("qkv", draw(72, (1, 1, 4, 8), (1, 1, 4, 8), "float32"), strict=True))
    arrays[name] = torch.from_numpy(arrays[name]).requires_grad_(requires_grad)
    with pytest.raises(TypeError, match=rf"^{name} must be a numpy.ndarray.*got a torch.Tensor$"):
        naive.attention(**arrays)


def test_softmax_refuses_tensors():
    with pytest.raises(TypeError, match=r"^s must be a numpy.ndarray.*got a torch.Tensor$"):
        naive.softmax(torch.zeros(3))
