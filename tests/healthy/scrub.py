"""Takes the machine and its owner out of recorded logs: paths, host name, addresses, servers, user."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

_URL_HOST = re.compile(
    rb"((?:https?|git|ssh)://)(?!127\.0\.0\.1|localhost|0\.0\.0\.0)(?:[\w.%-]+(?::[^@\s/]*)?@)?[\w.-]+"
)
_ADDRESS = re.compile(
    rb"(?<![\w.])(?!127\.0\.0\.1\b|0\.0\.0\.0\b|255\.)(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})(?![\w.]*\d)"
)
_MAIL = re.compile(rb"[\w.+-]+@(?!example\.)(?:[\w-]+\.)+[A-Za-z]{2,}\b")
_MIRROR = re.compile(rb"file:///[\w/.-]+|/opt/(?:wheels|pypi)[\w/.-]*")
_CPU = re.compile(
    rb"^((?:Model name|BIOS Model name|Vendor ID|CPU family|Model|Stepping|Flags|Hypervisor vendor):\s+).*$", re.M
)


def scrub(text: bytes, paths: Mapping[str | Path, str]) -> bytes:
    """``paths`` maps real paths to the ones shown instead; longer ones are replaced first."""
    known = {str(path): shown for path, shown in paths.items()}
    known.setdefault(str(Path(sys.base_prefix)), "/usr/local")
    known.setdefault("/root/", "/home/user/")
    for path in sorted(known, key=len, reverse=True):
        # Some programs print absolute paths without the first slash.
        text = re.sub(rb"(?<![\w.])/?" + re.escape(path.lstrip("/").encode()) + rb"(?!\w)", known[path].encode(), text)
    text = re.sub(rb"\b" + re.escape(socket.gethostname().encode()) + rb"\b", b"node01", text)
    text = _MIRROR.sub(b"/mirror", text)
    text = _URL_HOST.sub(rb"\1host.example", text)
    text = _MAIL.sub(b"someone@example.org", text)
    text = _CPU.sub(rb"\1generic", text)
    seen: dict[bytes, bytes] = {}
    return _ADDRESS.sub(lambda m: seen.setdefault(m[1], b"192.0.2.%d" % (len(seen) % 250 + 1)), text)
