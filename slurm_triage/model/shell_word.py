"""Any text as one word for a shell."""

from __future__ import annotations

import shlex


def shell_word(text: str) -> str:
    """``text`` quoted. What a terminal obeys, also of what is pasted, and Markdown's backtick are written as bash's
    ``$'\\x60'``."""
    if text.isprintable() and "`" not in text:
        return shlex.quote(text)
    return "$'" + "".join(c if c.isprintable() and c not in "`\\'" else _as_bytes(c) for c in text) + "'"


def _as_bytes(char: str) -> str:
    errors = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", errors))
