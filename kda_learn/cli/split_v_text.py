"""The VSplit times as plain text, for terminals."""

import textwrap
from typing import Any

from ..ground.text_table import WIDTH, table
from ..kernel_a.variants import V_SPLITS

UNIT = "ns per tile and head"


def as_text(result: dict[str, Any]) -> str:
    """Times, the rule that they make, and the article's; `result` as `split_v.split_v` returns it."""
    parts = [result["banner"]]
    for stage in dict.fromkeys(row["stage"] for row in result["rows"]):
        for sms in dict.fromkeys(row["sms"] for row in result["rows"] if row["stage"] == stage):
            parts.append(f"{stage}, {sms} SMs, {UNIT}:\n\n{times_table(result, stage, sms)}")
    return "\n\n".join([*parts, rule_text(result["rule"])])


def times_table(result: dict[str, Any], stage: str, sms: int) -> str:
    """The times of one stage on so many SMs, by the number of (sequence, head) pairs."""
    times = {
        (row["pairs"], row["v_split"]): row["ns_per_tile"]
        for row in result["rows"]
        if (row["stage"], row["sms"]) == (stage, sms)
    }
    points = [point for point in result["points"] if (point["stage"], point["sms"]) == (stage, sms)]
    rows = [
        [
            point["pairs"],
            *(times[point["pairs"], split] for split in V_SPLITS),
            point["best"],
            point["article"],
            f"+{point['article_loss_pct']:.0f} %",
            point["rule"],
            f"+{point['rule_loss_pct']:.0f} %",
        ]
        for point in points
    ]
    splits = [f"VSplit {split}" for split in V_SPLITS]
    return table(["N*H", *splits, "fastest", "article's", "loses", "measured rule's", "loses"], rows)


def rule_text(rule: dict[str, Any]) -> str:
    """Both rules in words, what they lose on average and at worst, and what ours says of other GPUs."""
    lines = [
        f"Measured rule: {rule['words']}. It takes {rule['mean_loss_pct']:.1f} % longer than the fastest "
        f"VSplit on average, {rule['worst_loss_pct']:.0f} % at worst.",
        "Article's rule: 4 if N*H < SMs, else 1. It takes "
        f"{rule['article_mean_loss_pct']:.1f} % longer on average, {rule['article_worst_loss_pct']:.0f} % at "
        "worst.",
    ]
    for sms, limits in rule["limits"].items():
        steps = ", ".join(
            f"{split} up to N*H = {most}" for split, most in sorted(limits.items(), key=lambda one: one[1])
        )
        lines.append(f"On {sms} SMs: VSplit {steps}, 1 beyond." if steps else f"On {sms} SMs: VSplit 1.")
    return "\n".join(textwrap.fill(line, WIDTH) for line in lines)
