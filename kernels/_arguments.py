"""Checks of arguments, shared by all modules of `kernels`.

Every check runs before anything is computed or launched, and its message names the argument, what
was got and what is allowed. Nothing here depends on the kind of array: a check reads `shape` and
`dtype`, and the caller says which type of array it takes.
"""

import functools
import inspect
import math
import numbers

import numpy as np

FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64")

# Kernels count positions in 32 bits. It also keeps `input_pos + i` from wrapping around in int64.
POSITION_LIMIT = 2**31

# A scale is multiplied into float32 scores, where more than this would be inf.
SCALE_LIMIT = float(np.finfo(np.float32).max)


def checked(check):
    """Decorator: call `check` with the function's arguments, defaults filled in, before it runs.

    `check` has the function's parameters. It raises, or returns a dict of the arguments that the
    function shall get in a cleaner form, such as a NumPy integer as an int.
    """

    def decorate(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args, **kwargs):
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            bound.arguments.update(check(**bound.arguments))
            # A weight far below the largest underflows to 0, and that is its right value.
            with np.errstate(under="ignore"):
                return function(*bound.args, **bound.kwargs)

        return call

    return decorate


def check_array(name, array, *, array_type=np.ndarray, dtypes=FLOAT_DTYPES):
    """TypeError unless `array` is an `array_type` of one of `dtypes` (two names or more)."""
    allowed = f"{_type_name(array_type)} of {', '.join(dtypes[:-1])} or {dtypes[-1]}"
    # A masked array is an ndarray, but its mask would be ignored.
    if not isinstance(array, array_type) or isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a {allowed}, got a {_type_name(type(array))}")
    if dtype_name(array) not in dtypes:
        raise TypeError(f"{name} must be a {allowed}, got dtype {dtype_name(array)}")


def _type_name(array_type):
    return f"{array_type.__module__}.{array_type.__qualname__}".removeprefix("builtins.")


def dtype_name(array):
    """'float16' for NumPy's float16 as well as for torch.float16; '>f2' for swapped bytes."""
    return str(array.dtype).removeprefix("torch.")


def check_same_dtype(**arrays):
    """TypeError unless all arrays, given by their argument names, have one dtype."""
    names = {name: dtype_name(array) for name, array in arrays.items()}
    if len(set(names.values())) > 1:
        listed = ", ".join(f"{name} {dtype}" for name, dtype in names.items())
        raise TypeError(f"all arrays must have the same dtype, got {listed}")


def check_arrays(arrays, dtypes=FLOAT_DTYPES):
    """TypeError unless all arrays, by argument name, are NumPy's, of one dtype among `dtypes`."""
    for name, array in arrays.items():
        check_array(name, array, dtypes=dtypes)
    check_same_dtype(**arrays)


def clean_attention(arrays, causal, scale, input_pos):
    """Checks what attention takes, its arrays by name: q and k, or q, k and v."""
    check_arrays(arrays)
    check_attention_shapes(**arrays)
    check_flag("causal", causal)
    return {"scale": clean_scale(scale), "input_pos": clean_input_pos(input_pos, causal)}


def check_attention_shapes(q, k, v=None):
    """ValueError unless q is (B, H, q_len, D), k and v are (B, H_kv, k_len, D), D > 0, H_kv | H."""
    arrays = {"q": q, "k": k} if v is None else {"q": q, "k": k, "v": v}
    for name, array in arrays.items():
        if array.ndim != 4:
            raise ValueError(
                f"{name} must be 4-D (batch, heads, length, head_dim), got shape {shape_of(array)}"
            )
    _check_equal("batch", 0, q=q, k=k)
    _check_equal("head_dim", 3, q=q, k=k)
    if v is not None:
        _check_equal("batch", 0, k=k, v=v)
        _check_equal("num_kv_heads", 1, k=k, v=v)
        _check_equal("k_len", 2, k=k, v=v)
        _check_equal("head_dim", 3, k=k, v=v)
    if q.shape[3] == 0:
        raise ValueError(f"q has head_dim 0, at least 1 is needed (shape {shape_of(q)})")
    check_heads(q.shape[1], k.shape[1])


def _check_equal(what, axis, **two_arrays):
    (name_a, a), (name_b, b) = two_arrays.items()
    _check_sizes(what, (name_a, a, axis), (name_b, b, axis))


def _check_sizes(what, one, other):
    """Two axes, each given as (argument's name, array, axis), must have one size."""
    (name_a, a, axis_a), (name_b, b, axis_b) = one, other
    size_a, size_b = a.shape[axis_a], b.shape[axis_b]
    if size_a != size_b:
        raise ValueError(
            f"{name_a} and {name_b} must have the same {what}, got {name_a} with {size_a} "
            f"(shape {shape_of(a)}) and {name_b} with {size_b} (shape {shape_of(b)})"
        )


def shape_of(array):
    """The shape as a plain tuple, so that a message reads the same for every kind of array."""
    return tuple(array.shape)


def check_heads(num_heads, num_kv_heads):
    """ValueError unless each KV head serves a whole number of query heads. 0 heads are allowed."""
    if (num_kv_heads == 0 and num_heads > 0) or (num_kv_heads > 0 and num_heads % num_kv_heads):
        raise ValueError(
            "num_heads must be a multiple of num_kv_heads, "
            f"got num_heads {num_heads} and num_kv_heads {num_kv_heads}"
        )


def check_flag(name, value):
    """TypeError unless `value` is True or False: a string such as "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def clean_scale(scale):
    """`scale` as a float, None left as it is. TypeError or ValueError unless a finite number."""
    if scale is None:
        return None
    if isinstance(scale, bool) or not isinstance(scale, numbers.Real):
        raise TypeError(f"scale must be a real number or None, got {scale!r}")
    try:
        clean = float(scale)
    except OverflowError:  # an int of more than 308 digits
        clean = math.inf
    # Not `abs(clean) > SCALE_LIMIT`, which a NaN would pass.
    if not abs(clean) <= SCALE_LIMIT:
        raise ValueError(
            f"scale must be finite, at most {SCALE_LIMIT:.3g} in magnitude, got {clean!r}"
        )
    return clean


def clean_input_pos(input_pos, causal):
    """`input_pos` as an int, None left as it is. It may be negative; without `causal` it means
    nothing, so it is refused."""
    if input_pos is None:
        return None
    input_pos = clean_int("input_pos", input_pos, -POSITION_LIMIT, POSITION_LIMIT - 1)
    if not causal:
        raise ValueError(f"input_pos is for causal=True only, got {input_pos} with causal=False")
    return input_pos


def clean_int(name, value, least, most=None):
    """`value` as an int. TypeError unless an integer, ValueError outside `least` .. `most`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if value < least or (most is not None and value > most):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be {allowed}, got {value}")
    return int(value)


def check_axes(arrays, axes):
    """ValueError unless each array has the axes named for it, and one size for each name.

    arrays: by argument name. axes: for each of them a tuple of axis names, in order.
    """
    first = {}  # of each axis, where it came up first
    for name, names in axes.items():
        array = arrays[name]
        if len(array.shape) != len(names):
            listed = ", ".join(names) + ("," if len(names) == 1 else "")
            raise ValueError(
                f"{name} must be {len(names)}-D ({listed}), got shape {shape_of(array)}"
            )
        for axis, what in enumerate(names):
            place = name, array, axis
            _check_sizes(what, first.setdefault(what, place), place)


def check_head_dim(name, array):
    """ValueError if head_dim, the last axis, is 0: such an array holds nothing to attend to."""
    if array.shape[-1] == 0:
        raise ValueError(f"{name} has head_dim 0, at least 1 is needed")
