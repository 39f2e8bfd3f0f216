"""`python -m course COMMAND`: everything but grading one's own work, which is `pytest tests/`."""

import argparse
import importlib
import sys

# Each module has add_arguments(parser) and run(args) -> exit status. It is imported only when
# its command is used, so that `doctor` works where half of the packages are missing.
COMMANDS = {
    "notebooks": ("course.notebooks", "make notebooks/ and solutions/ from book/chapters"),
    "book": ("course.book", "execute the chapters and build the book"),
    "class": ("course.grader.classroom", "grade a folder of learners into a table of marks"),
    "hint": ("course.hints", "show a hint for an exercise"),
    "doctor": ("course.doctor", "say what runs on this machine, and how to mend what does not"),
}


NOT_INSTALLED = """{name} is not installed for {python}.
Activate the environment of the course (source .venv/bin/activate), or see what is missing:
    python -m course doctor
"""


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m course", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = next((word for word in arguments if not word.startswith("-")), None)
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary.capitalize() + ".")
        if name == asked:
            try:
                implementation = importlib.import_module(module)
            except ModuleNotFoundError as error:
                if (error.name or "course").split(".")[0] in ("course", "kernels"):
                    raise  # a fault of ours
                parser.exit(2, NOT_INSTALLED.format(name=error.name, python=sys.executable))
            implementation.add_arguments(command)
            command.set_defaults(run=implementation.run)
    args = parser.parse_args(arguments)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
