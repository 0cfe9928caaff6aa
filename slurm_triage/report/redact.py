"""Secrets leave no report: tokens, keys, passwords, private key blocks and mail addresses become ``[redacted]``.

Numbers are never touched (they are not text), so steps, durations and counts stay as they are. All expressions run in
time linear in the text: each begins with a literal or at a word's beginning and repeats over disjoint characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

REDACTED = "[redacted]"

#: Texts that the job's owner typed as commands: ``user@host`` in them is an address to log in to, not to write to.
COMMAND_KEYS = frozenset({"submit_line", "command", "tunnel_command", "args", "changes", "next_steps"})

#: Whatever holds none of these holds no secret; most texts end here. Plain ``in`` tests are ten times as fast as one
#: expression with all of them.
_HINTS = (
    *("token", "secret", "pass", "key", "cred", "auth", "bearer", "cookie", "login", "wandb", "signature", "sig="),
    *("://", "@", "eyj", "munge:", "hf_", "api_org_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("sk-", "sk_", "rk-", "rk_", "xox", "npm_", "pypi-", "dckr_", "nvapi-", "akia", "asia", "agpa", "aida", "aroa"),
    *("anpa", "aiza", "ya29", "services/t", "local-", "mysql", "mariadb", "curl", "wget", "http"),
)
#: Texts shorter than the shortest ``key=x`` hold none either.
_MIN_CHARS = 5
_LONG_SHAPE = re.compile(r"\d:[\w-]{30}|[A-Za-z0-9+/]{60}")
_KEY_BLOCK = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM = re.compile(rf"-----BEGIN {_KEY_BLOCK}.*?(?:-----END {_KEY_BLOCK}|\Z)", re.DOTALL)
_PEM_BEGIN = re.compile(rf"-----BEGIN {_KEY_BLOCK}")
_PEM_END = re.compile(rf"-----END {_KEY_BLOCK}")
#: A line of nothing but base64, as the inside of a key file looks when it is quoted alone.
_BASE64_LINE = re.compile(r"\s*(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])(?=\D*\d)(?=[^/])[A-Za-z0-9+/]{60,}={0,2}\s*\Z")

#: Shapes that their issuers document, wherever they stand.
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{16}"  # AWS access key ids
    r"|(?:hf|api_org)_[A-Za-z0-9]{20,}"  # Hugging Face
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}"  # GitHub, GitLab
    r"|(?:sk|rk)[-_](?:\w{1,12}[-_])?[A-Za-z0-9][\w-]{19,}"  # model and payment services
    r"|xox[abeprs]-[\w-]{10,}|services/T\w+/B\w+/\w+"  # Slack
    r"|AIza[\w-]{35}|ya29\.[\w-]{20,}"  # Google
    r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}|dckr_[a-z]{2,4}_[\w-]{20,}|nvapi-[\w-]{20,}"  # registries
    r"|wandb_v\d_\w{20,}|local-[0-9a-f]{40}"  # Weights & Biases
    r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?|MUNGE:[A-Za-z0-9+/=]{8,}:?"  # JSON web tokens (Slurm's too), munge
    r"|\d{6,12}:[\w-]{35}(?![\w-])"  # chat bots
    r")"
)
#: An API key of Weights & Biases is 40 hex digits, as is a commit: only the word before tells them apart.
_WANDB = re.compile(r"(wandb[^\n]{0,80}?(?<![0-9a-f]))[0-9a-f]{40}(?![0-9a-f])", re.IGNORECASE)
_USERINFO = re.compile(r"(://)[^\s/?#\"'<>]*@")
_HEADER = re.compile(
    r"((?:authorization|(?<![\w-])(?:set-)?cookie)\\{0,15}[\"']?\s{0,4}[:=]\s{0,4}\\{0,15}[\"']?)[^\"'\n]+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(\bbearer\s{1,4})(?:(?=[^\s\"']{0,200}\d)[\w.~+/=-]{8,}|[\w.~+/=-]{20,})", re.IGNORECASE)
_SIGNATURE = re.compile(r"((?:\bsig|signature)=)[\w%+/=.-]{8,}", re.IGNORECASE)
_NETRC = re.compile(r"(\blogin\s{1,4}[^\s]{1,80}\s{1,4}password\s{1,4})\S+", re.IGNORECASE)
#: Options of database and web clients that carry a password without saying so.
_CLIENT_OPTION = re.compile(
    r"(\b(?:mysql|mariadb)[\w-]{0,20}\b[^\n|;]{0,200}?\s-p(?=[^\s=])"
    r"|\b(?:curl|wget|http|https)\b[^\n|;]{0,200}?\s(?:-u|--user|--proxy-user|-a)[\s=]{0,4}[^\s:]{1,80}:)\S+"
)
#: Told in a sentence; a word without a digit is more likely "incorrect" or "required".
_SAID = re.compile(
    r"(passw(?:or)?d\s{1,4}(?:is\s{1,4}|was\s{1,4})?[\"'`]?)(?=[^\s\"'`]{0,60}\d)[^\s\"'`]{4,}", re.IGNORECASE
)
_LOGIN_OPTION = re.compile(r"(\blogin\b[^\n|;]{0,200}?\s-p[\s=]{0,4})[^\s=]\S*", re.IGNORECASE)

_SECRET_WORD = (
    r"secrets?|passw(?:or)?ds?|passphrases?|credentials?"
    r"|(?:api|access|account|auth|encryption|license|private|secret|shared|signing|ssh|deploy)[_-]?keys?"
)
#: JSON in JSON in JSON: there are up to 15 backslashes before a quote.
_SEPARATOR = r"\\{0,15}[\"']?\s{0,4}(?:=>|==?|:)\s{0,4}"
_SECRET_NAME = (
    rf"(?P<token>tokens?(?!i[sz]))|{_SECRET_WORD}|(?<=[_-])pass(?={_SEPARATOR})|(?P<key>key(?=\s?=))|(?<=_)auth(?==)"
)
_KEYED = re.compile(rf"(?:{_SECRET_NAME})(?P<rest>[\w.\[\]-]{{0,40}}){_SEPARATOR}", re.IGNORECASE)
_OPTION = re.compile(
    rf"(?<![^\s\"'=])--?[\w-]{{0,40}}?(?:tokens?|{_SECRET_WORD}|(?<=[_-])pass)"
    r"(?P<rest>(?:[_-]\w{1,20})?)\s{1,4}(?=[^\s-])",
    re.IGNORECASE,
)
#: The value of a named secret: quoted (also with escaped quotes), or up to the next blank.
_VALUE = re.compile(
    r"\\{1,15}\"(?P<e>[^\"\\]*(?:\\[^\"][^\"\\]*)*)|\"(?P<d>[^\"\\]*(?:\\.[^\"\\]*)*)|'(?P<s>[^']*)|(?P<u>\S+)",
    re.DOTALL,
)
_COUNT = re.compile(r"[\d.,:/%+-]{1,24}[a-zA-Z]?[,;.)\]}]?\Z")
_NOTHING = frozenset({"none", "null", "nil", "true", "false", "unset", "empty", "missing"})

_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(?![\w-])")


@lru_cache(maxsize=2048)
def redact_text(text: str, *, emails: bool = True) -> str:
    """``text`` without secrets. Applying it twice changes nothing more. (Ranks repeat each other, hence the cache.)"""
    if len(text) < _MIN_CHARS or not _may_hold_secret(text):
        return text
    text = _PEM.sub(REDACTED, text)
    text = _USERINFO.sub(rf"\1{REDACTED}@", text)
    text = _SHAPES.sub(REDACTED, text)
    for pattern in (_WANDB, _HEADER, _BEARER, _SIGNATURE, _NETRC, _LOGIN_OPTION, _CLIENT_OPTION, _SAID):
        text = pattern.sub(rf"\1{REDACTED}", text)
    text = _redact_values(text, _KEYED)
    text = _redact_values(text, _OPTION)
    if emails and "ssh " not in text:
        text = _EMAIL.sub(REDACTED, text)
    return REDACTED if _BASE64_LINE.match(text) else text


def _may_hold_secret(text: str) -> bool:
    low = text.lower()
    return any(hint in low for hint in _HINTS) or (len(text) > 35 and _LONG_SHAPE.search(text) is not None)


def redact_lines(lines: Iterable[str]) -> list[str]:
    """Consecutive lines of one text: a private key that spans several of them goes as a whole."""
    kept, inside = [], False
    for line in lines:
        begin, end = _PEM_BEGIN.search(line), _PEM_END.search(line)
        if inside:
            kept.append(REDACTED if end is None else REDACTED + redact_text(line[end.end() :]))
        else:
            kept.append(redact_text(line))
        inside = (inside or begin is not None) and end is None
    return kept


def redact(document: Mapping[str, Any], *, share: bool = False) -> dict[str, Any]:
    """A document of ``triage.json`` without secrets, and, for ``share``, without user, hosts, addresses and paths."""
    clean = {key: _redact_value(value, key) for key, value in document.items()}
    if not share:
        return clean
    from slurm_triage.report.share import share_document  # loaded only by those who share

    return share_document(clean)


def _redact_value(value: Any, key: str) -> Any:
    if isinstance(value, str):
        return redact_text(value, emails=key not in COMMAND_KEYS)
    if isinstance(value, Mapping):
        inherited = key in COMMAND_KEYS or key == "evidence"
        inner = {redact_text(name): _redact_value(item, key if inherited else name) for name, item in value.items()}
        return _redact_named_items(inner) if key == "args" else _with_block(value, inner)
    if isinstance(value, list):
        if value and key in {"block", "evidence"}:
            return redact_lines(value)
        return [_redact_value(item, key) for item in value]
    return value


def _with_block(finding: Mapping[str, Any], clean: dict[str, Any]) -> dict[str, Any]:
    """A finding's first line and the block below it are one text."""
    first, block = finding.get("first"), finding.get("block")
    if isinstance(first, Mapping) and block and isinstance(first.get("text"), str):
        text, *rest = redact_lines([first["text"], *block])
        return {**clean, "first": {**clean["first"], "text": text}, "block": rest}
    return clean


def _redact_named_items(mapping: dict[str, Any]) -> dict[str, Any]:
    """In ``{"hf_access_token": "x"}`` the name stands in the key: read both together."""
    return {
        name: REDACTED if isinstance(item, str) and item and _is_secret(name, item) else item
        for name, item in mapping.items()
    }


def _is_secret(name: str, value: str) -> bool:
    match = _KEYED.search(f"{name}=")
    return match is not None and not _keeps(match, value)


def _redact_values(text: str, pattern: re.Pattern[str]) -> str:
    """Replaces what follows each name that ``pattern`` finds."""
    parts, position = [], 0
    name = pattern.search(text)
    while name is not None:
        start, end = _value_span(text, name)
        value = text[start:end]
        parts.append(text[position:start])
        parts.append(value if not value or _keeps(name, value) else REDACTED)
        position = max(end, name.end())
        parts.append(text[end:position])
        name = pattern.search(text, position)
    return "".join(parts) + text[position:]


def _value_span(text: str, name: re.Match[str]) -> tuple[int, int]:
    quote = _quote_around(text, name.start())
    if quote and text[name.end() : name.end() + 1] not in {'"', "'", "\\"}:
        # 'password=two words': the quote was opened before the name, so the value ends where that quote does.
        end = text.find(quote, name.end())
        return name.end(), len(text) if end < 0 else end
    match = _VALUE.match(text, name.end())
    if match is None:
        return name.end(), name.end()
    return match.span(match.lastgroup or 0)


def _quote_around(text: str, start: int) -> str | None:
    """The quote that opened the word in which a name stands (``'KEY=...``), if the word began with one."""
    word = re.search(r"[\w.-]{0,80}\Z", text[max(0, start - 80) : start])
    before = start - len(word[0]) - 1 if word else start - 1
    return text[before] if before >= 0 and text[before] in "\"'" else None


def _keeps(name: re.Match[str], value: str) -> bool:
    """Words that say "there is none", and counts: ``max_tokens=4096`` is a number of tokens, not a token."""
    if value.strip("\"'.,;)]}").lower() in _NOTHING or value == REDACTED:
        return True
    groups = name.groupdict()
    counted = groups.get("key") or (groups.get("token") and (groups["token"].lower() == "tokens" or name["rest"]))
    return bool(counted) and _COUNT.match(value) is not None
