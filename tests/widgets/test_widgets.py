"""The explorers' data, and their JavaScript model against `hardware.banks` and `hardware.layouts`."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from javascript import evaluate

from kda_learn.ground.errors import BadInput
from kda_learn.hardware import banks, fragments, layouts
from kda_learn.tracing.patterns import access
from kda_learn.widgets.bank_map import DEFAULT_PATTERN, LANE_MAPS, MOST_BYTES, SWIZZLES, WIDTHS, bank_map
from kda_learn.widgets.explorer import SCRIPTS, bundle, state
from kda_learn.widgets.tiles import tiles

LANES = 32
TILE_ROWS = {
    "linear": 32,
    "tokens_halves": 16,
    "accumulator": 8,
    "accumulator_transposed": 8,
    "matrix_rows": 16,
}
ATOM_BYTES = {"interleaved": 16, "sw32": 32, "sw64": 64, "sw128": 128}


def place_of(lane: int, pattern: dict) -> tuple[int, int]:
    """The row and the byte of it that a lane reads, written down once more from the pattern's description."""
    width = pattern["width"]
    return {
        "linear": (lane, 0),
        "tokens_halves": (lane % 16, lane // 16 * pattern["distance"]),
        "accumulator": (lane // 4, lane % 4 * max(4, width)),
        "accumulator_transposed": (lane % 4 * 2, lane // 4 * width),
        "matrix_rows": (lane % 16, lane // 16 * 16),
    }[pattern["lanes"]]


def expected_addresses(pattern: dict) -> list[int]:
    """The byte addresses of a pattern by `hardware.layouts`."""
    row, byte = np.array([place_of(lane, pattern) for lane in range(LANES)]).T
    if pattern["swizzle"] == "none":
        return (row * (pattern["stride"] + pattern["padding"]) + byte).tolist()
    width = ATOM_BYTES[pattern["swizzle"]]
    shape = TILE_ROWS[pattern["lanes"]], 1024
    if width == 16:
        return layouts.interleaved(*shape, element_bytes=1).offset(row, byte).tolist()
    return layouts.swizzled(*shape, width, element_bytes=1).offset(row, byte).tolist()


def python_phases(op: str, width: int, addresses: list[int]) -> list[dict]:
    """The phases of one access by `hardware.banks`, in the form of the script's answers."""
    mask = sum(1 << lane for lane, place in enumerate(addresses) if place >= 0)
    return [
        {
            "lanes": phase.lanes,
            "wavefronts": phase.wavefronts,
            "words": sorted({word for words in phase.words for word in words}),
            "shared": sorted([word, lanes] for word, lanes in phase.shared.items()),
        }
        for phase in banks.phases(addresses, mask, op, width)
    ]


MODEL = """value.map((access) => ({
  ...module.cost(access),
  phases: module.phases(access).map(({ lanes, words, wavefronts }) => ({
    lanes, wavefronts, words: [...words.keys()].sort((a, b) => a - b),
    shared: [...words].filter(([, lanes]) => lanes.length > 1).sort(([a], [b]) => a - b),
  })),
}))"""


def check_model(accesses: list[dict]) -> None:
    """Holds the script's phases and costs against those of `hardware.banks`."""
    answers = evaluate("bank_model", MODEL, accesses)
    for one, answer in zip(accesses, answers, strict=True):
        mask = sum(1 << lane for lane, place in enumerate(one["addresses"]) if place >= 0)
        cost = banks.cost(one["op"], [one["addresses"]], [mask], one["bytes"])
        assert answer["phases"] == python_phases(one["op"], one["bytes"], one["addresses"]), one
        assert (answer["wavefronts"], answer["least"]) == (cost.wavefronts[0], cost.least[0]), one


def test_the_script_counts_wavefronts_as_python_does():
    """Random addresses, crowded so that lanes share words and banks, with lanes left out."""
    random = np.random.default_rng(0)
    operations = [("lds", 2), ("lds", 4), ("sts", 8), ("lds", 16), ("cp.async.ca", 4), ("cp.async.cg", 16)]
    operations += [
        (f"{name}.x{count}{trans}", 16)
        for name in ("ldmatrix", "stmatrix")
        for count in (1, 2, 4)
        for trans in ("", ".trans")
    ]
    accesses = []
    for op, width in operations * 25:
        span = int(random.choice([8, 64, 512, 4096]))
        addresses = random.integers(0, span, LANES) * width
        partner = random.choice([0, 0, 1, 2, 4])  # lanes that want what another wants
        addresses = addresses[np.arange(LANES) & ~partner]
        is_idle = random.random(LANES) < random.choice([0, 0.3, 0.95])
        is_idle[random.integers(0, 8)] = False
        accesses.append(access(op, width, np.where(is_idle, -1, addresses)))
    check_model(accesses)


def test_the_script_builds_patterns_as_the_layouts_say_and_counts_them():
    random = np.random.default_rng(1)
    patterns = [
        {
            "lanes": lanes,
            "width": int(random.choice(WIDTHS)),
            "stride": int(random.integers(1, 40)) * 16,
            "padding": int(random.integers(0, 3)) * 16,
            "distance": int(random.integers(0, 30)) * 16,
            "swizzle": swizzle,
        }
        for lanes, swizzle, _ in itertools.product(LANE_MAPS, SWIZZLES, range(12))
    ]
    built = evaluate("bank_model", "value.map(module.build)", patterns)
    for pattern, one in zip(patterns, built, strict=True):
        assert one["addresses"] == expected_addresses(pattern), pattern
    check_model(built)


MEASURED = [
    # Counted on an H200: width, lane map, row stride in bytes, distance of the halves, wavefronts.
    *[(width, "linear", width, 0, count) for width, count in ((2, 1), (4, 1), (8, 2), (16, 4))],
    (4, "linear", 128, 0, 32),
    (16, "linear", 32, 0, 8),
    (16, "linear", 256, 0, 32),
    *[
        (2, "tokens_halves", stride * 2, 64, count)
        for stride, count in ((128, 16), (132, 2), (136, 4), (130, 1))
    ],
    *[
        (2, "tokens_halves", stride * 2, 2, count)
        for stride, count in ((128, 16), (132, 1), (136, 2), (130, 1))
    ],
    *[(2, "accumulator", stride * 2, 0, count) for stride, count in ((128, 8), (132, 2), (136, 1), (130, 4))],
    *[
        (2, "accumulator_transposed", stride * 2, 0, count)
        for stride, count in ((128, 4), (132, 1), (136, 1), (130, 2))
    ],
    *[(4, "tokens_halves", stride * 4, 128, count) for stride, count in ((128, 32), (132, 4))],
    *[
        (16, "matrix_rows", stride, 0, count)
        for stride, count in ((32, 8), (64, 16), (128, 32), (144, 4), (256, 32), (272, 4))
    ],
]


def test_the_script_gives_the_figures_that_a_gpu_counted():
    patterns = [
        DEFAULT_PATTERN | {"width": width, "lanes": lanes, "stride": stride, "distance": distance}
        for width, lanes, stride, distance, _ in MEASURED
    ]
    answers = evaluate(
        "bank_model", "value.map((one) => module.cost(module.build(one)).wavefronts)", patterns
    )
    assert answers == [count for *_, count in MEASURED]


@pytest.mark.parametrize(("swizzle", "count"), [("interleaved", 4), ("sw32", 4), ("sw64", 4), ("sw128", 4)])
def test_every_swizzle_frees_matrix_rows_of_conflicts(swizzle, count):
    pattern = DEFAULT_PATTERN | {"lanes": "matrix_rows", "swizzle": swizzle}
    assert evaluate("bank_model", "module.cost(module.build(value)).wavefronts", pattern) == count


def test_the_script_refuses_what_the_hardware_refuses():
    patterns = [DEFAULT_PATTERN | {"lanes": "matrix_rows", "stride": stride} for stride in (260, 272)]
    answers = evaluate("bank_model", "value.map((one) => module.misalignedLane(module.build(one)))", patterns)
    assert answers == [1, -1]


def test_python_and_script_offer_the_same_choices():
    names = (
        "[Object.keys(module.LANE_MAPS), Object.keys(module.SWIZZLES), module.WIDTHS, module.DEFAULT_PATTERN]"
    )
    assert evaluate("bank_model", names) == [list(LANE_MAPS), list(SWIZZLES), list(WIDTHS), DEFAULT_PATTERN]
    assert evaluate("bank_model", "module.MOST_BYTES") == MOST_BYTES


WORDS = """value.map((one) => {
  const phase = module.phases(one)[0];
  const texts = [
    module.costText(one, module.cost(one)), module.collisionText(phase), module.laneText(one, phase, 1),
  ];
  return texts.map((text) => text.replaceAll("\u2013\u2060", "-"));
})"""


def test_words_say_what_it_costs_and_who_collides():
    accesses = [
        access("lds", 4, np.arange(LANES) * 128),
        access("lds", 4, np.arange(LANES) // 8 * 4),
        access("sts", 8, [0, 128, *[-1] * 30]),
    ]
    column, shared, pair = evaluate("bank_model bank_text", WORDS, accesses)
    assert column == [
        "lds of 4 bytes a lane takes 32 wavefronts where 1 would do: 31 in excess.",
        "Lanes 0-31: bank 0 is asked for 32 different words by lanes 0-31, which collide and are served one "
        "word at a time.",
        "Lane 1: byte 128, bank 0, served in wavefront 2. Collides with lanes 0 and 2-31.",
    ]
    assert shared == [
        "lds of 4 bytes a lane takes 1 wavefront, the least possible.",
        "Lanes 0-31: no bank is asked for more than one word. Several lanes share a word 4 times: "
        "a broadcast.",
        "Lane 1: byte 0, bank 0, served in wavefront 1. Shares a word with lanes 0 and 2-7.",
    ]
    assert pair == [
        "sts of 8 bytes a lane takes 2 wavefronts where 1 would do: 1 in excess.",
        "Lanes 0-15: bank 0 is asked for 2 different words by lanes 0 and 1, which collide and are served "
        "one word at a time. Likewise bank 1.",
        "Lane 1: byte 128, banks 0 and 1, served in wavefront 2. Collides with lane 0.",
    ]


@pytest.mark.parametrize("name", ["bank_map", "tiles"])
def test_bundles_are_one_module_without_imports(name):
    assert "import " not in bundle(name).replace("import(", "")
    assert evaluate(name, "Object.keys(module.default)") == ["render"]


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.js")), ids=lambda path: path.name)
def test_scripts_are_small_and_ask_for_nothing_outside(script):
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 300
    assert "http" not in text
    assert "fetch(" not in text


def test_state_is_all_that_a_page_needs():
    accesses = [access("sts", 2, np.arange(LANES) * 2, line=7, text="sts(...)")]
    for widget in (bank_map(accesses), bank_map(lanes="accumulator"), tiles("dual"), tiles("dS", v_split=4)):
        values = state(widget)
        assert json.loads(json.dumps(values)) == values
        assert set(values) == set(widget.state_names)
    assert state(bank_map(accesses))["mode"] == "recorded"
    assert state(bank_map(stride=264))["pattern"]["stride"] == 264
    assert state(tiles("dS", v_split=4))["routes"]["dS"] == "4"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bank_map(swizle="none"), "swizle was given: a pattern takes"),
        (lambda: bank_map(swizzle="sw16"), "choose one of 'none'"),
        (lambda: bank_map(width=3), "choose one of 2, 4, 8, 16"),
        (lambda: bank_map(stride=-4), "from 0 to 4096"),
        (lambda: bank_map(padding=1.5), "from 0 to 4096"),
        (lambda: tiles("D"), "choose one of 'A'"),
        (lambda: tiles("dS", v_split=3), "choose 1, 2, 4 or 8"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(call, message):
    with pytest.raises(BadInput, match=message):
        call()


def panels():
    """All panels of the register-tiling explorer, each with its view and route."""
    for view in state(tiles())["views"]:
        for route in view["routes"]:
            for panel in view["panels"] + route["panels"]:
                yield view, route, panel


def test_every_panel_has_a_place_for_every_element():
    for view, _, panel in panels():
        lists = {name: values for name, values in panel.items() if isinstance(values, list)}
        headings = ("axes", "row_names", "column_names")
        sizes = {len(values) for name, values in lists.items() if name not in headings}
        assert len(sizes) == 1, (view["name"], panel["title"])
        if panel["kind"] == "grid":
            assert max(panel["row"]) == panel["rows"] - 1
            assert max(panel["column"]) < panel["columns"]
        else:
            held = set(zip(panel["lane"], panel["register"], panel["half"], strict=True))
            assert len(held) == LANES * panel["registers"] * panel["halves"]


def test_one_byte_of_ds_is_read_in_two_ways():
    """Element (v, k) goes where B of G2 wants (k, v), and where an accumulator of G4 and G5 has (k, v)."""
    view = next(view for view in state(tiles())["views"] if view["name"] == "dual")
    tile, plain, _, turned, _ = view["panels"]
    layout = layouts.interleaved(128, 128)
    for e, (v, k) in enumerate(itertools.product(range(16), range(16))):
        assert tile["offset"][e] == layout.offset(v, k)
        as_b = fragments.owner("B", k, v % 8)
        assert (plain["lane"][e], plain["half"][e]) == (as_b.lane, as_b.half)
        assert plain["register"][e] == v // 8 * 2 + as_b.register
        as_c = fragments.packed_owner(k, v % 8)
        assert (turned["lane"][e], turned["half"][e]) == (as_c.lane, as_c.half)
        assert turned["register"][e] == v // 8 * 2 + as_c.register


def test_only_the_widgets_need_anywidget():
    code = (
        "import sys; import kda_learn, kda_learn.hardware.fragments, kda_learn.tracing.patterns; "
        "print([name for name in ('anywidget', 'ipywidgets', 'traitlets') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
