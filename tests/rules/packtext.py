"""Texts of small packs."""

from __future__ import annotations

#: Text of one rule without faults; ``extra`` lines may override nothing but add keys.
RULE = """
[[rule]]
id = "{id}"
class = "{cls}"
title = "A title"
patterns = ['{pattern}']
references = ["made up"]
samples.match = ['{match}']
samples.reject = ['{reject}']
{extra}
"""

CLASS = """
[class.{id}]
title = "A class"
domain = "{domain}"
retry = "after-fix"
kind = "specific"
means = "It broke."
recognised = "By its text."
confused_with = "Nothing."
next_steps = ["Look."]
"""


def rule_text(
    rule_id: str = "made-up",
    cls: str = "harmless",
    pattern: str = "gizmo exploded",
    match: str | None = None,
    reject: str = "all is well",
    extra: str = "",
) -> str:
    return RULE.format(id=rule_id, cls=cls, pattern=pattern, match=match or pattern, reject=reject, extra=extra)


def class_text(class_id: str = "made-up-class", domain: str = "storage") -> str:
    return CLASS.format(id=class_id, domain=domain)
