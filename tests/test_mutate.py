"""`make mutate` knows every module and its tests, and its own changes to them are harmless."""

import ast
import functools

from mutate import EQUIVALENT, OWN_TESTS, ROOT, described, numbers_outside_functions, without_decorators


def test_every_module_and_every_file_of_tests_is_there():
    for path, tests in OWN_TESTS.items():
        assert (ROOT / "kda_learn" / path).is_file()
        assert all((ROOT / "tests" / name).is_file() for name in tests), path
    assert set(EQUIVALENT) <= set(OWN_TESTS)


def test_every_equivalent_mutant_has_a_reason():
    assert all(reason for mutants in EQUIVALENT.values() for reason in mutants.values())


SOURCE = """\
LIMIT = 3
class A:
    WIDTH: int = 2
    @property
    def one(self):
        return 1
    @cached_property
    def two(self):
        return 2
    @staticmethod
    def three():
        return LIMIT
@cache
def four():
    return 4
"""


def test_without_decorators_a_module_means_the_same():
    assert without_decorators(SOURCE).count("@") == 1
    for source in (SOURCE, without_decorators(SOURCE)):
        module = {"cached_property": functools.cached_property, "cache": functools.cache}
        exec(source, module)
        a = module["A"]()
        assert (a.one, a.two, a.three(), module["four"]()) == (1, 2, 3, 4)


def test_numbers_outside_functions_are_found():
    assert [node.value for node in numbers_outside_functions(ast.parse(SOURCE))] == [3, 2]


def test_a_mutant_is_described_by_its_function_and_its_new_line():
    diff = "# name: survived\n--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n"
    assert described("kda_learn.a.xǁAǁone__mutmut_1", diff) == "A.one: return 2"
    assert described("kda_learn.a.x_four__mutmut_12", diff) == "four: return 2"
    without = diff.replace("+    return 2\n", "+)\n")
    assert described("kda_learn.a.x__f__mutmut_1", without) == "_f: without return 1"
