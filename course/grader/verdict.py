"""The six verdicts, and what is said with them."""

from dataclasses import dataclass, field

PASSED = "passed"
UNDEFINED = "undefined"  # right values here, but they rest on undefined behaviour
WRONG = "wrong"
ERROR = "error"  # crashed, out of time or memory, or the notebook can't be read
NOT_ATTEMPTED = "not attempted"  # the stub is untouched
NOT_RUN = "not run"  # the tier needs what this machine lacks

# From the one that decides an exercise's verdict to the one that any other overrules.
BY_WEIGHT = (ERROR, WRONG, UNDEFINED, NOT_ATTEMPTED, PASSED, NOT_RUN)
FAILURES = (ERROR, WRONG, UNDEFINED)


@dataclass(frozen=True)
class Verdict:
    """One tier's verdict. `message` is for the learner; `diagnosis` names known mistakes."""

    kind: str
    message: str = ""
    diagnosis: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        if self.kind not in BY_WEIGHT:
            raise ValueError(f"kind: a verdict is one of {BY_WEIGHT}, got {self.kind!r}")


@dataclass(frozen=True)
class Grade:
    """An exercise's verdicts by tier, and the points that they are worth."""

    exercise: str
    points_possible: int
    tiers: dict[str, Verdict] = field(default_factory=dict)
    seed: int = 0
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """The gravest of the tiers' verdicts."""
        if not self.tiers:
            return Verdict(NOT_RUN, "no tier was selected")
        return min(self.tiers.values(), key=lambda verdict: BY_WEIGHT.index(verdict.kind))

    @property
    def points(self) -> int:
        """All or nothing: the values must be right, and no tier that ran may have failed."""
        return self.points_possible if self.verdict.kind == PASSED else 0

    def as_json(self) -> dict:
        return {
            "id": self.exercise,
            "verdict": self.verdict.kind,
            "points": self.points,
            "of": self.points_possible,
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
            "tiers": {
                tier: {
                    "verdict": verdict.kind,
                    "message": verdict.message,
                    "diagnosis": list(verdict.diagnosis),
                    "notes": list(verdict.notes),
                }
                for tier, verdict in self.tiers.items()
            },
        }

    @classmethod
    def from_json(cls, data: dict) -> "Grade":
        tiers = {
            tier: Verdict(v["verdict"], v["message"], tuple(v["diagnosis"]), tuple(v["notes"]))
            for tier, v in data["tiers"].items()
        }
        return cls(data["id"], data["of"], tiers, data["seed"], data["seconds"])
