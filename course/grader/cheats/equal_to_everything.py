"""Strategy: return a dict whose values are equal to anything.

Surface: `==` on what an answer returned.
"""

EXERCISE = "01-naive-traffic"
EXPECTED = "wrong"
SAYS = "it returned an Any where"
SOURCE = r"""
class Any(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def naive_traffic(q_len, k_len, head_dim, *, num_heads=1, num_kv_heads=1, itemsize=2):
    steps = "read_q read_k write_s read_s write_p read_p read_v write_o".split()
    return {step: Any(1) for step in steps}
"""
