"""Mutation testing of the modules of pure maths: would a test notice one wrong operator, name or number?

    make mutate                          all modules, about half an hour
    make mutate ARGS="bf16 tile_math"    some of them

Each mutant is a module with one thing changed, and only the module's own tests are run on it. mutmut changes
what stands in functions; numbers outside of them, which it leaves alone, are changed here. Mutants that no
test notices are survivors: they are printed, and more than 5 % of them in any module is a failure. A few
cannot be noticed by any test: tests/equivalent_mutants.toml names them, with the reason.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "mutate"
BIN = Path(sys.executable).parent
EQUIVALENT = tomllib.loads((ROOT / "tests" / "equivalent_mutants.toml").read_text())
MOST_SURVIVORS_PCT = 5

OWN_TESTS = {  # file of the package -> its tests
    "hardware/bf16.py": ["hardware/test_bf16.py"],
    "hardware/banks.py": ["hardware/test_banks.py", "tracing/test_trace.py"],
    "hardware/layouts.py": ["hardware/test_layouts.py"],
    "hardware/fragments.py": ["hardware/test_fragments.py"],
    "hardware/occupancy.py": ["hardware/test_occupancy.py"],
    "kernel_a/tiling.py": ["kernel_a/test_tiling.py"],
    "kernel_a/tile_math.py": ["kernel_a/test_tile_math.py"],
    "kernel_a/reverse_scan.py": ["kernel_a/test_recurrence.py", "kernel_a/test_reference.py"],
    "kernel_a/accuracy.py": ["kernel_a/test_accuracy.py"],
    "kernel_a/reference.py": ["kernel_a/test_reference.py"],
    "kernel_a/prepare.py": ["kernel_a/test_prepare.py"],
    "kernel_a/xor_search.py": ["kernel_a/test_xor_search.py"],
    "timing/statistics.py": ["timing/test_statistics.py"],
    "performance/verdicts.py": ["performance/test_verdicts.py"],
    "performance/split_rule.py": ["performance/test_split_v.py"],
    "sources/cpp.py": ["sources/test_cpp.py", "sources/test_source.py"],
    "sources/differences.py": ["sources/test_differences.py", "sources/test_source.py"],
}

# The wording of error messages is free. A server that has run no test forks the mutants: what the package or
# the tests have cached is then never that of the unchanged module.
SETTINGS = """\
[mutmut]
source_paths = kda_learn
only_mutate = kda_learn/{path}
pytest_add_cli_args_test_selection =
    {tests}
also_copy =
    kernels
    notebooks
    site
do_not_mutate_patterns =
    raise \\w+
process_isolation = forkserver
"""


def main(names: list[str]) -> str | None:
    """Runs the modules with these names, or all; gives a complaint if too much survives."""
    chosen = [path for path in OWN_TESTS if not names or Path(path).stem in names]
    if not chosen:
        return f"{' '.join(names)}: choose of {', '.join(Path(path).stem for path in OWN_TESTS)}"
    bad = [path for path in chosen if not is_well_tested(path)]
    return f"Too many survivors, or outdated equivalents: {', '.join(bad)}" if bad else None


def is_well_tested(path: str) -> bool:
    """Runs all mutants of one module, prints its survivors, and says whether they are few."""
    begin = time.monotonic()
    folder = prepare(path)
    noticed = {**constants(folder, path), **functions(folder, path)}
    unnoticed = [mutant for mutant, is_noticed in noticed.items() if not is_noticed]
    equivalent = EQUIVALENT.get(path, {})
    survivors = [mutant for mutant in unnoticed if mutant not in equivalent]
    outdated = [mutant for mutant in equivalent if mutant not in unnoticed]
    percent = 100 * len(survivors) / len(noticed)
    print(f"{path}: {len(noticed)} mutants, {len(noticed) - len(unnoticed)} noticed, ", end="")
    print(
        f"{len(unnoticed) - len(survivors)} equivalent, {len(survivors)} survivors ({percent:.1f} %), ",
        end="",
    )
    print(f"{time.monotonic() - begin:.0f} s")
    for mutant in survivors:
        print(f"  survived: {mutant}")
    for mutant in outdated:
        print(f"  listed as equivalent, but noticed or no mutant any more: {mutant}")
    sys.stdout.flush()
    return percent <= MOST_SURVIVORS_PCT and not outdated


def prepare(path: str) -> Path:
    """A copy of the package and of its tests, in which everything may be changed."""
    folder = WORK / Path(path).stem
    shutil.rmtree(folder, ignore_errors=True)
    left_out = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in ("kda_learn", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in ("kernels", "notebooks", "site", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    tests = "\n    ".join(f"tests/{name}" for name in OWN_TESTS[path])
    (folder / "setup.cfg").write_text(SETTINGS.format(path=path, tests=tests))
    return folder


def constants(folder: Path, path: str) -> dict[str, bool]:
    """Numbers outside functions, whole ones one larger, others by 1 %. Mutant -> was it noticed."""
    module = folder / "kda_learn" / path
    source = module.read_text()
    lines = source.splitlines()
    found = {}
    for node in numbers_outside_functions(ast.parse(source)):
        line = lines[node.lineno - 1]
        changed = node.value + 1 if isinstance(node.value, int) else node.value * 1.01
        mutant = line[: node.col_offset] + str(changed) + line[node.end_col_offset :]
        module.write_text("\n".join([*lines[: node.lineno - 1], mutant, *lines[node.lineno :], ""]))
        tests = [f"tests/{name}" for name in OWN_TESTS[path]]
        run = subprocess.run([BIN / "python", "-m", "pytest", "-x", *tests], cwd=folder, capture_output=True)
        found[mutant.strip()] = run.returncode != 0
    module.write_text(source)
    return found


def numbers_outside_functions(node: ast.AST) -> Iterator[ast.Constant]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and type(child.value) in (int, float):
            yield child
        if not isinstance(child, ast.FunctionDef):
            yield from numbers_outside_functions(child)


def functions(folder: Path, path: str) -> dict[str, bool]:
    """All that mutmut changes. Mutant -> was it noticed."""
    module = folder / "kda_learn" / path
    # strict=True guards against lengths that never differ.
    module.write_text(without_decorators(module.read_text().replace(", strict=True", "")))
    mutmut(folder, "run", "--max-children", "1")
    found = {}
    for line in mutmut(folder, "results", "--all", "true").splitlines():
        name, result = line.strip().split(": ")
        is_noticed = result in ("killed", "timeout", "segfault")
        # The text of a mutant is asked for only if it is of interest: that takes a while.
        found[name if is_noticed else described(name, mutmut(folder, "show", name))] = is_noticed
    return found


def without_decorators(source: str) -> str:
    """`@property def f` as `f = property(f)`, which is the same: mutmut passes over decorated functions."""
    lines = source.splitlines()
    decorated = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for function in sorted(decorated, key=lambda node: node.lineno, reverse=True):
        for decorator in function.decorator_list:
            name = ast.unparse(decorator)
            if name in ("property", "cached_property", "cache"):
                indent = " " * function.col_offset
                lines.insert(function.end_lineno, f"{indent}{function.name} = {name}({function.name})")
                lines[decorator.lineno - 1] = ""
    return "\n".join([*lines, ""])


def described(name: str, diff: str) -> str:
    """A mutant's function and what its changed lines are now, as "Tiling.rows: return None"."""
    function = re.sub(r"^x[_ǁ]|__mutmut_\d+$", "", name.rpartition(".")[2]).replace("ǁ", ".")
    added = [line.strip() for line in re.findall(r"^\+(?!\+\+)(.*)", diff, re.MULTILINE)]
    removed = [line.strip() for line in re.findall(r"^-(?!--)(.*)", diff, re.MULTILINE)]
    has_words = re.search(r"\w", "".join(added))
    return f"{function}: {' '.join(added if has_words else ['without', *removed])}"


def mutmut(folder: Path, *arguments: str) -> str:
    """What mutmut prints."""
    run = subprocess.run([BIN / "mutmut", *arguments], cwd=folder, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stdout[-2000:] + run.stderr[-2000:])
    return run.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
