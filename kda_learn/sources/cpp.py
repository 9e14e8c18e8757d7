"""The little C++ that Python must understand to read a kernel file: comments, braces, integer constants."""

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from ..ground.errors import BadInput

_COMMENT_OR_LITERAL = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_PREPROCESSOR_LINE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_CONTAINER = re.compile(
    r"\b(?:struct|class|union|enum(?:\s+(?:struct|class))?|namespace)\b(?:\s+(?P<name>\w+))?|^extern\b"
)
_TEMPLATE = re.compile(r"\btemplate\s*<[^{}()]*?>(?=\s*[\w:])")
_ATTRIBUTE = re.compile(r"\b(?:__launch_bounds__|alignas)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")
_FUNCTION_NAME = re.compile(r"(?P<name>\w+)\s*\(")
_TOKEN = re.compile(r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b|(?P<other>\w+|[<>=!]=|[-+*/%()?:<>]))")


@dataclass(frozen=True)
class Block:
    """Text between braces, and what stands in front of them. Offsets count characters of the text."""

    head: str
    head_start: int
    start: int  # of the opening brace
    end: int  # of the closing brace
    parents: tuple[str, ...]  # heads of the enclosing blocks, the outermost first

    @property
    def container(self) -> str | None:
        """The name of a struct, namespace or the like ("" if it has none); None for anything else."""
        head = self._without_attributes
        match = _CONTAINER.search(head)
        if match is None or "(" in head:
            return None
        return match["name"] or ""

    @property
    def function(self) -> str | None:
        """The name of the function that this is the body of, None for anything else."""
        head = self._without_attributes
        match = _FUNCTION_NAME.search(head)
        if match is None or "=" in head[: match.start()]:
            return None
        return match["name"]

    @property
    def _without_attributes(self) -> str:
        """The head without template<...>, alignas(...) and launch bounds."""
        return _ATTRIBUTE.sub("", _TEMPLATE.sub("", self.head))


def strip_comments(text: str) -> str:
    """The text with blanks for comments: every other character keeps its line and its column."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0]) if match["comment"] else match[0]

    return _COMMENT_OR_LITERAL.sub(blank, text)


def only_code(text: str) -> str:
    """The text with blanks for comments, literals and preprocessor lines; line breaks stay."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return _PREPROCESSOR_LINE.sub(blank, _COMMENT_OR_LITERAL.sub(blank, text))


def blocks(text: str) -> list[Block]:
    """All pairs of braces in a C++ text, in the order in which they open.

    Raises BadInput when braces do not match.
    """

    code = only_code(text)
    found: list[Block] = []
    unfinished: list[tuple[str, int, int]] = []
    head_start = 0
    for match in re.finditer(r"[{};]", code):
        place = match.start()
        if match[0] == "{":
            head = code[head_start:place]
            leading_blanks = len(head) - len(head.lstrip())
            unfinished.append((head.strip(), head_start + leading_blanks, place))
        elif match[0] == "}":
            if not unfinished:
                raise BadInput(f"line {line_of(text, place)} closes a brace that was never opened: remove it")
            own_head, own_head_start, start = unfinished.pop()
            parents = tuple(head for head, _, _ in unfinished)
            found.append(Block(own_head, own_head_start, start, place, parents))
        head_start = place + 1
    if unfinished:
        raise BadInput(f"the brace on line {line_of(text, unfinished[-1][2])} is never closed: close it")
    return sorted(found, key=lambda block: block.start)


def functions(text: str) -> list[Block]:
    """The bodies of all functions of a C++ text; lambdas and the like inside them are part of them."""
    bodies: list[Block] = []
    for block in blocks(text):
        inside_another = bodies and block.start < bodies[-1].end
        if not inside_another and block.container is None and block.function is not None:
            bodies.append(block)
    return bodies


def line_of(text: str, offset: int) -> int:
    """The line, from 1, in which a character lies."""
    return text.count("\n", 0, offset) + 1


_OPERATORS: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def evaluate(expression: str, value_of: Callable[[str], int]) -> int:
    """The value of a C++ expression of integers, names, + - * / %, comparisons, a ? b : c and parentheses.

    value_of: gives the value of a name. Numbers are taken as non-negative, as u32 is. Raises BadInput for
    anything else.
    """
    try:
        tree = ast.parse(_to_python(expression), mode="eval")
        return int(_value(tree.body, value_of))
    except (SyntaxError, ZeroDivisionError):
        raise BadInput(
            f"the C++ expression {' '.join(expression.split())!r} was given: "
            "want one of integers, names, + - * / %, comparisons, a ? b : c and parentheses"
        ) from None


def _to_python(expression: str) -> str:
    """The expression in Python's words: / becomes //, a ? b : c becomes b if a else c. Raises SyntaxError."""
    tokens: list[str] = []
    place = 0
    text = expression.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise SyntaxError(text[place:])
        tokens.append(match["number"] or match["other"])
        place = match.end()
    converted, rest = _choice(tokens)
    if rest:
        raise SyntaxError(rest[0])
    return converted


def _choice(tokens: list[str]) -> tuple[str, list[str]]:
    """Converts `a ? b : c`, or an expression without choice; gives it and the tokens left over."""
    condition, tokens = _plain(tokens)
    if tokens[:1] != ["?"]:
        return condition, tokens
    when_true, tokens = _choice(tokens[1:])
    if tokens[:1] != [":"]:
        raise SyntaxError("? without :")
    when_false, tokens = _choice(tokens[1:])
    return f"(({when_true}) if ({condition}) else ({when_false}))", tokens


def _plain(tokens: list[str]) -> tuple[str, list[str]]:
    """Converts the tokens before the next ? or : or unopened ); gives them and the tokens left over."""
    words: list[str] = []
    while tokens and tokens[0] not in ("?", ":", ")"):
        token, tokens = tokens[0], tokens[1:]
        if token == "(":
            inner, tokens = _choice(tokens)
            if tokens[:1] != [")"]:
                raise SyntaxError("( without )")
            tokens = tokens[1:]
            words.append(f"({inner})")
        else:
            words.append("//" if token == "/" else token)
    return " ".join(words), tokens


def _value(node: ast.expr, value_of: Callable[[str], int]) -> int:
    """The value of one node of the syntax tree. Raises SyntaxError for what expressions may not hold."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return value_of(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, value_of)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, value_of), _value(node.right, value_of))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _OPERATORS[type(node.ops[0])](
            _value(node.left, value_of), _value(node.comparators[0], value_of)
        )
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, value_of) else node.orelse, value_of)
    raise SyntaxError(ast.dump(node))
