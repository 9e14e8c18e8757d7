"""The borders of what Python understands of C++: heads, containers, functions, lines, expressions."""

import pytest

from kda_learn.sources.cpp import blocks, evaluate, functions, line_of, strip_comments


def heads(text: str) -> list[tuple[str, int]]:
    return [(block.head, block.head_start) for block in blocks(text)]


def test_a_head_begins_behind_the_last_statement_or_brace():
    assert heads("a{}b{}") == [("a", 0), ("b", 3)]
    assert heads("x;a{b;c{}d{}}") == [("a", 2), ("c", 6), ("d", 9)]
    assert heads("\n  a {}\n  b {}") == [("a", 3), ("b", 10)]


def test_places_and_parents_of_blocks():
    outer, inner = blocks("a{b{}}")
    assert (outer.start, outer.end, outer.parents) == (1, 5, ())
    assert (inner.start, inner.end, inner.parents) == (3, 4, ("a",))


@pytest.mark.parametrize(
    ("head", "container", "function"),
    [
        ("struct A", "A", None),
        ("union A", "A", None),
        ("class A : public B", "A", None),
        ("enum A", "A", None),
        ("enum class A", "A", None),
        ("enum struct A : unsigned char", "A", None),
        ("namespace a", "a", None),
        ("namespace", "", None),
        ("static const struct", "", None),
        ("structure f()", None, "f"),
        ('extern "C"', "", None),
        ("template <class T> struct A", "A", None),
        ("template<class T>struct A", "A", None),
        ("struct A make(int x)", None, "make"),
        ("int f()", None, "f"),
        ("template <class T>A(T x)", None, "A"),
        ("void __launch_bounds__(128)f()", None, "f"),
        ("void __launch_bounds__(A == 1 ? max(2, 3) : 2) f(int x)", None, "f"),
        ("struct alignas(16) A", "A", None),
        ("template <class T> struct alignas(sizeof(T)) A", "A", None),
        ("auto f = [n = g(3)](int x)", None, None),
        ("int f(int x = 3)", None, "f"),
        ("constexpr u32 TABLE[] =", None, None),
        ("else", None, None),
    ],
)
def test_what_a_head_names(head, container, function):
    (block,) = blocks(f"{head} {{}}")
    assert (block.container, block.function) == (container, function)


def test_what_stands_in_a_function_is_part_of_it():
    text = "void f() { if (x) { g(); } struct A { int get() { return 1; } }; }\nvoid g() {}\n"
    assert [block.function for block in functions(text)] == ["f", "g"]


def test_comments_become_blanks_of_the_same_length():
    assert strip_comments("a/*b*/c//d") == "a     c   "


@pytest.mark.parametrize(
    ("text", "offset", "line"), [("a", 0, 1), ("\na", 0, 1), ("\na", 1, 2), ("a\n\nb", 3, 3)]
)
def test_lines_count_from_1(text, offset, line):
    assert line_of(text, offset) == line


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("  16  ", 16),
        ("\n1\n+\n2\n", 3),
        ("3 < C", 1),
        ("C < 3", 0),
        ("C <= 16", 1),
        ("C > 16", 0),
        ("C >= 16", 1),
        ("16 == C", 1),
        ("16 != C", 0),
        ("-C", -16),
        ("7 - C / 3 % 2", 6),
        ("C == 16 ? C : 0", 16),
        ("(C == 3 ? 1 : 2) * 10", 20),
        ("0xfFuL", 255),
    ],
)
def test_expressions_in_the_corners(expression, value):
    assert evaluate(expression, {"C": 16}.__getitem__) == value
