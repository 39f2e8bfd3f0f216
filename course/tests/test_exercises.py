"""The exercises grade what they say: mutants are caught by name, right answers pass."""

import os
import random

import numpy as np
import pytest

from course.chapter import find_chapters
from course.exercise import exercise_ids, find_exercise, mutants_of, variants_of
from course.grader import answer, solution
from course.grader.judge import expected_of, judge
from course.grader.outcome import Outcome
from course.grader.ownership import foreign_name
from course.grader.verdict import PASSED
from course.hints import LEVELS, read_hints

FULL = bool(os.environ.get("FULL"))
SEEDS = 200 if FULL else 12
IDS = exercise_ids()
SAMPLE = None if FULL else 8  # mutants of an exercise, drawn anew for each state of the list


def sampled(exercise_id):
    mutants = mutants_of(exercise_id)
    if SAMPLE is None or len(mutants) <= SAMPLE:
        return mutants
    names = ",".join(mutant.name for mutant in mutants)
    return random.Random(names).sample(mutants, SAMPLE)


MUTANTS = [(id, mutant) for id in IDS for mutant in sampled(id)]
VARIANTS = [(id, name) for id in IDS for name in variants_of(id)]


def verdict_on(exercise_id, answers, seed=None):
    exercise = find_exercise(exercise_id)
    seed = exercise.seed if seed is None else seed
    cases = exercise.cases(seed)
    return judge(exercise, cases, answer.run_cases(exercise, answers, cases), seed)


def planted(exercise_id, mutant, where):
    """What a learner hands in who made this mistake, in one of two ways of writing it."""
    exercise = find_exercise(exercise_id)
    if where == "reference":
        return solution.with_edit(exercise, mutant.reference)
    source = mutant.variant.apply(variants_of(exercise_id)["variant.py"])
    return solution.from_text(source, exercise)


def test_exercises_are_in_the_order_of_the_text():
    statements = [cell for chapter in find_chapters() for cell in chapter.cells]
    assert [cell.options["exercise"] for cell in statements if cell.kind == "exercise"] == IDS


@pytest.mark.parametrize("where", ["reference", "variant"])
@pytest.mark.parametrize(
    ("exercise_id", "mutant"), MUTANTS, ids=[f"{id}-{mutant.name}" for id, mutant in MUTANTS]
)
def test_a_mutant_is_rejected_with_its_own_message(exercise_id, mutant, where):
    exercise = find_exercise(exercise_id)
    seeds = [exercise.seed, *range(5 if FULL else 1)]
    for seed in seeds:
        verdict = verdict_on(exercise_id, planted(exercise_id, mutant, where), seed)
        assert verdict.kind in ("wrong", "error"), f"seed {seed}"
        assert verdict.diagnosis == (mutant.name,), f"seed {seed}: {verdict.message}"
        assert verdict.message.startswith(mutant.says), f"seed {seed}"


@pytest.mark.parametrize("exercise_id", IDS)
def test_each_exercise_has_enough_mutants_variants_and_hints(exercise_id):
    names = [mutant.name for mutant in mutants_of(exercise_id)]
    assert len(names) >= 4 and len(set(names)) == len(names)
    assert len(variants_of(exercise_id)) >= 2
    assert tuple(read_hints(exercise_id)) == LEVELS
    assert "```" not in read_hints(exercise_id)[1], "the first hint shows no code"


@pytest.mark.parametrize(("exercise_id", "name"), VARIANTS)
def test_a_right_answer_written_differently_passes(exercise_id, name):
    exercise = find_exercise(exercise_id)
    answers = solution.from_text(variants_of(exercise_id)[name], exercise)
    assert foreign_name(list(answers.values()), exercise.forbidden) is None
    for seed in range(SEEDS // 4):
        verdict = verdict_on(exercise_id, answers, seed)
        assert verdict.kind == PASSED, f"seed {seed}: {verdict.message}"


@pytest.mark.parametrize("exercise_id", IDS)
def test_the_solution_never_fails_falsely(exercise_id):
    answers = solution.with_edit(find_exercise(exercise_id))
    for seed in range(SEEDS):
        verdict = verdict_on(exercise_id, answers, seed)
        assert verdict.kind == PASSED, f"seed {seed}: {verdict.message}"


# Wrong answers that no mutant describes: they are wrong, and nobody guesses why.
UNLISTED = {
    "00-start-visible-keys": "def visible_keys(i, q_len, k_len):\n    return 7",
    "01-naive-softmax": (
        "import numpy as np\n"
        "def softmax(s):\n"
        "    return np.full(s.shape, 1 / max(1, s.shape[-1]), s.dtype)"
    ),
    "01-naive-attention": (
        "import numpy as np\n"
        "def attention(q, k, v, *, causal=False, scale=None, input_pos=None):\n"
        "    return np.array(q[..., ::-1])"
    ),
    "02-online-update": ("def update(m_i, l_i, acc, s, v):\n    return m_i - 1, l_i + 3, acc * 7"),
    "02-online-faults": (
        "import numpy as np\n"
        "def is_right(update):\n"
        "    return np.isfinite(update(*map(np.zeros, (1, 1, (1, 1), (1, 1), (1, 1))))[2].sum())"
    ),
    "02-online-merge": (
        "def merge(a, b):\n    return tuple(x - 2 * y for x, y in zip(a, b, strict=True))"
    ),
    "02-online-row": (
        "import numpy as np\n"
        "def attend_row(q, blocks, *, scale=None):\n"
        "    return q[::-1].copy(), np.promote_types(q.dtype, np.float32).type(7)"
    ),
    "03-tiling-range": (
        "def key_tiles(i, q_len, k_len, tile_m, tile_n, *, causal=False, input_pos=None):\n"
        "    return 7, 77"
    ),
    "03-tiling-forward": (
        "import numpy as np\n"
        "def attention_forward(q, k, v, *, tile_m, tile_n, **options):\n"
        "    wide = np.promote_types(q.dtype, np.float32)\n"
        "    return q[..., ::-1].copy(), np.full(q.shape[:3], 7, wide)"
    ),
    "03-tiling-budget": (
        "def largest_tiles(memory_bytes, head_dim, *, itemsize=2):\n    return 7, 77"
    ),
    "03-tiling-backward": (
        "def score_gradients(s, v, o, lse, do):\n"
        "    return v - 7, 0 * do @ v.T - 7, 0 * do @ v.T + 77"
    ),
    "01-naive-traffic": (
        "def naive_traffic(q_len, k_len, head_dim, *, num_heads=1, num_kv_heads=1, itemsize=2):\n"
        "    steps = 'read_q read_k write_s read_s write_p read_p read_v write_o'.split()\n"
        "    return {step: q_len + k_len + head_dim for step in steps}"
    ),
}


@pytest.mark.parametrize("exercise_id", IDS)
def test_an_unlisted_mistake_gets_no_diagnosis(exercise_id):
    exercise = find_exercise(exercise_id)
    verdict = verdict_on(exercise_id, solution.from_text(UNLISTED[exercise_id], exercise))
    assert verdict.kind == "wrong" and verdict.diagnosis == ()


# Answers that hand something cheap back instead of computing it (field case G8-01).
CANARIES = {
    "zeros": lambda expected, case: np.zeros_like(expected),
    "ones": lambda expected, case: np.ones_like(expected),
    "minus infinity": lambda expected, case: np.full_like(expected, -np.inf),
    "NaN": lambda expected, case: np.full_like(expected, np.nan),
    "an argument": lambda expected, case: next(
        (x for x in case.args if isinstance(x, np.ndarray) and x.shape == expected.shape),
        np.zeros_like(expected),
    ),
}
ARRAYS = [
    id
    for id in IDS
    if any(case.dtype or case.parts for case in find_exercise(id).cases(0).values())
]


@pytest.mark.parametrize("canary", CANARIES)
@pytest.mark.parametrize("exercise_id", ARRAYS)
def test_a_canary_passes_only_where_it_is_the_right_result(exercise_id, canary):
    exercise = find_exercise(exercise_id)
    failed = 0
    for name, case in exercise.cases(exercise.seed).items():
        expected = expected_of(exercise, case)
        several = expected if case.parts else (expected,)
        dtypes = [part.dtype for part in case.parts] or [case.dtype]
        fakes = [
            CANARIES[canary](np.asarray(x), case).astype(dtype)
            for x, dtype in zip(several, dtypes, strict=True)
        ]
        outcome = Outcome(tuple(fakes) if case.parts else fakes[0], peak_bytes=0)
        passed = judge(exercise, {name: case}, {name: outcome}, exercise.seed).kind == PASSED
        right = all(
            np.allclose(fake.astype(np.float64), x, rtol=1e-2, atol=0)
            for fake, x in zip(fakes, several, strict=True)
        )
        assert passed <= right, name
        failed += not passed
    assert failed, "no input tells it from a right answer"
