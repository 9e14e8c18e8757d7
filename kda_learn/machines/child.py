"""Work in a child process, which holds the GPU's memory and gives it back by ending.

The work is a function of this package that takes a request and gives an answer, both plain enough for JSON;
it is named "kda_learn.room.module:function". ncu and compute-sanitizer watch such a process too.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..ground import errors
from ..ground.errors import KdaError
from ..ground.files import PACKAGE
from ..ground.say import PREFIX, heard_by, is_heard, print_line, say


def command(work: str, request: Path, answer: Path) -> list[str]:
    """The command line that does the work: it reads the request from one JSON file and writes its answer to
    another, {"answer": ...} or {"error": [kind, message]}.
    """
    return [sys.executable, "-m", __name__, work, str(request), str(answer)]


def environment() -> dict[str, str]:
    """The environment for `command`: this process's, with this package first among those that are found."""
    search_path = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": search_path}


def run_in_child(work: str, request: Any) -> Any:
    """Do the work in a child process, and return its answer or raise its error.

    What the child says is said here too; without a listener it goes to standard error, like all else that the
    child prints there. If this process is interrupted, the child is ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        request_file, answer_file = Path(folder) / "request.json", Path(folder) / "answer.json"
        request_file.write_text(json.dumps(request), encoding="utf-8")
        child = subprocess.Popen(
            command(work, request_file, answer_file),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        last_line = "nothing"
        try:
            for line in child.stderr:
                last_line = line.strip() or last_line
                if line.startswith(PREFIX) and is_heard():
                    say(last_line.removeprefix(PREFIX))
                else:
                    print(line, end="", file=sys.stderr, flush=True)
            status = child.wait()
        except BaseException:
            child.kill()
            raise
        finally:
            child.stderr.close()
        if not answer_file.exists():
            raise KdaError(
                f"The child process ended with exit status {status} and no answer (its last words: "
                f"{last_line}): try fewer stages or heads, and `kda-learn check --machine gpu`."
            )
        return answer_in(answer_file)


def answer_in(file: Path) -> Any:
    """The answer that a child wrote; raises the error if it wrote one, and KdaError if it wrote nothing."""
    if not file.exists():
        raise KdaError("The child process ended without an answer: try fewer stages or heads at a time.")
    found = json.loads(file.read_text(encoding="utf-8"))
    if "error" in found:
        kind, message = found["error"]
        raise getattr(errors, kind, KdaError)(message)
    return found["answer"]


def function_named(work: str) -> Callable[..., Any]:
    """The function that a name such as "kda_learn.room.module:function" means."""
    module, _, function = work.partition(":")
    return getattr(importlib.import_module(module), function)


def serve(work: str, request_file: Path, answer_file: Path) -> None:
    """The child's side of `command`: what is said goes to standard error."""
    request = json.loads(request_file.read_text(encoding="utf-8"))
    with heard_by(print_line):
        try:
            found = {"answer": function_named(work)(request)}
        except KdaError as error:
            found = {"error": [type(error).__name__, str(error)]}
    answer_file.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
