"""No secret leaves in any output, and nothing else is damaged."""

from __future__ import annotations

import re
import string
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurm_triage.model.report import Report
from slurm_triage.report.build_document import report_document
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.redact import REDACTED, redact, redact_lines, redact_text
from slurm_triage.report.terminal import to_terminal
from slurm_triage.report.to_html import to_html
from slurm_triage.report.to_json import to_json

from .hostile_reports import HOSTILE, with_hostile_text
from .sample_reports import SAMPLES, failed

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def random_text(alphabet: str, low: int, high: int) -> st.SearchStrategy[str]:
    """Random characters with at least one letter and one digit: what a generator of secrets makes."""
    text = st.text(alphabet, min_size=low, max_size=high)
    return text.filter(lambda t: any(c.isdigit() for c in t) and any(c.isalpha() for c in t))


NAMES = st.sampled_from(
    [
        *("token", "hf_access_token", "HF_TOKEN", "DOCKER_TOKEN", "secret", "client_secret", "password", "passwd"),
        *("PGPASSWORD", "api_key", "apikey", "WANDB_API_KEY", "api-key", "credential", "credentials", "aws_access_key"),
        *("access_token_secret", "private_key", "SSH_KEY_PASSPHRASE", "DB_PASS", "account_key", "Token", "auth_token"),
    ]
)
LAYOUTS = st.sampled_from(
    [
        *("{n}={v}", "{n}: {v}", "--{n}={v}", "--{n} {v}", "'{n}={v}'", '"{n}": "{v}"', "'{n}': '{v}'", "{n} = {v}"),
        *(
            "export {n}={v}",
            'export {n}="{v}"',
            "{n}=>{v}",
            '\\"{n}\\": \\"{v}\\"',
            "?{n}={v}&x=1",
            "Config param {n}: {v}",
        ),
    ]
)
#: (text before, shape): shapes that are secret wherever they stand.
SHAPES: list[st.SearchStrategy[tuple[str, str]]] = [
    st.tuples(st.just("AKIA"), st.text(string.ascii_uppercase + string.digits, min_size=16, max_size=16)),
    st.tuples(st.just("hf_"), random_text(ALNUM, 34, 34)),
    st.tuples(st.sampled_from(["ghp_", "gho_", "ghs_"]), random_text(ALNUM, 36, 36)),
    st.tuples(st.just("github_pat_"), random_text(ALNUM + "_", 40, 82)),
    st.tuples(st.just("glpat-"), random_text(ALNUM + "-_", 20, 20)),
    st.tuples(st.just("sk-"), random_text(ALNUM, 40, 48)),
    st.tuples(st.just("sk-proj-"), random_text(ALNUM, 40, 48)),
    st.tuples(st.just("xoxb-"), random_text(ALNUM + "-", 24, 50)),
    st.tuples(st.just("AIza"), random_text(ALNUM + "-_", 35, 35)),
    st.tuples(st.just("Bearer "), random_text(ALNUM + "._-", 12, 60)),
    st.tuples(st.just("Authorization: Basic "), random_text(ALNUM + "+/", 8, 40)),
    st.tuples(st.just("wandb: login "), st.text(HEX, min_size=40, max_size=40)),
    st.tuples(st.just("nvapi-"), random_text(ALNUM + "-_", 40, 64)),
    st.tuples(st.just("eyJhbGciOiJIUzI1NiJ9."), random_text(ALNUM + "-_", 20, 60)),
    st.tuples(st.just("MUNGE:"), random_text(ALNUM + "+/", 40, 80)),
    st.tuples(st.just("123456789:"), random_text(ALNUM + "-_", 35, 35)),
    st.tuples(st.just("https://hooks.slack.com/services/T0/B0/"), random_text(ALNUM, 24, 24)),
    st.tuples(st.just("https://bob:"), random_text(ALNUM + "!$&*,;=.", 8, 20).map(lambda t: t + "@host/x")),
]


@given(NAMES, LAYOUTS, random_text(ALNUM + "+_.-", 8, 40).filter(lambda v: v[0] not in "-."), st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_named_secret_survives(name: str, layout: str, value: str, later: bool) -> None:
    text = ("x " if later else "") + layout.format(n=name, v=value) + " after"
    clean = redact_text(text)
    assert value not in clean
    assert REDACTED in clean
    assert clean.endswith("after")
    assert redact_text(clean) == clean


@given(st.one_of(SHAPES), st.sampled_from(["", "error: ", "cmd '", "x="]), st.sampled_from(["", " next", "'", "\n"]))
@settings(max_examples=150, deadline=None)
def test_no_secret_shape_survives(shape: tuple[str, str], before: str, after: str) -> None:
    prefix, secret = shape
    clean = redact_text(before + prefix + secret + after)
    assert secret.removesuffix("@host/x") not in clean
    assert clean.startswith(before)
    assert redact_text(clean) == clean


@given(HOSTILE)
@settings(max_examples=100, deadline=None)
@example("token=[redacted]")
@example("password='a b'")
@example('secret="unclosed')
@example("https://a:b@c@d/")
def test_redaction_is_idempotent(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "completed step: 139, seconds: 30.118, TFLOP/s/device: 412.9, Tokens/s/device: 3290.41, total_weights: 262144",
        "max_tokens=4096 num_tokens: 8192, tokens_per_second=123.4, total tokens: 1,234,567",
        "Token indices sequence length is longer than the specified maximum sequence length (5000 > 4096).",
        "tokenizer_path=/data/tokenizer.model tokenizer: sentencepiece",
        "DEADLINE_EXCEEDED: GetKeyValue() timed out with key: cuda:0/1 and duration: 10m",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "srun: error: Job credential expired",
        "KeyError: 'params'",
        "Config param hf_access_token: None",
        "jax_distributed_heartbeat_timeout_seconds: 14400",
        "(MaxTextTrainerActor pid=677) Sharding: passthrough",
        "/usr/lib/python3.10/site-packages/jax/_src/api.py:123",
        "I0601 22:14:54.123456 4711 metric_logger.py:181] completed step: 5, seconds: 3.0",
        "http://localhost:8265 and https://docs.example.org/a?b=c",
        "/mnt/vast/checkpoints/llama2/70b/run/checkpoints/items/manifest/ocdbt/lock/x",
    ],
)
def test_ordinary_lines_are_left_alone(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("hf_access_token=abc steps=200", "hf_access_token=[redacted] steps=200"),
        ("'--password=two words' -N 4", "'--password=[redacted]' -N 4"),
        ("--api-key abc123 --steps 5", "--api-key [redacted] --steps 5"),
        ('{"api_key": "a\\"b", "step": 12}', '{"api_key": "[redacted]", "step": 12}'),
        ("https://user:p@ss@host/x", "https://[redacted]@host/x"),
        ("docker login -u bob -p hunter2 reg", "docker login -u bob -p [redacted] reg"),
        ("machine h login bob password x", "machine h login bob password [redacted]"),
        ("curl -H 'Authorization: Bearer abc' u", "curl -H 'Authorization: [redacted]' u"),
        ("Cookie: a=b; c=d", "Cookie: [redacted]"),
        ("mail alice@site.example now", "mail [redacted] now"),
        ("token=12345678", "token=[redacted]"),
        ("https://b.example/x?sig=abcdefgh12&se=1", "https://b.example/x?sig=[redacted]&se=1"),
    ],
)
def test_only_the_secret_goes(text: str, clean: str) -> None:
    assert redact_text(text) == clean


def test_a_key_over_several_lines_goes_as_a_whole() -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"
    lines = ["cat key", "-----BEGIN RSA PRIVATE KEY-----", body, "short", "-----END RSA PRIVATE KEY----- done", "next"]
    assert redact_lines(lines) == ["cat key", REDACTED, REDACTED, REDACTED, REDACTED + " done", "next"]
    assert redact_text("\n".join(lines)) == "cat key\n[redacted] done\nnext"
    assert redact_text(body * 2) == REDACTED


def test_a_key_that_begins_in_the_quoted_line_goes_with_its_block() -> None:
    base = failed()
    first = base.diagnosis.findings[0]
    assert first.match is not None
    begin = "-----BEGIN OPENSSH PRIVATE KEY-----"
    match = replace(first.match, first=replace(first.match.first, text=begin), block=("b3BlbnNzaC1r", "ZXktdjEAAAAA"))
    report = replace(base, diagnosis=replace(base.diagnosis, findings=(replace(first, match=match),)))
    finding = report_document(report)["findings"][0]
    assert finding["first"]["text"] == REDACTED
    assert finding["block"] == [REDACTED, REDACTED]


def test_addresses_to_log_in_to_stay_and_mail_addresses_go() -> None:
    document = redact(
        {"notes": ["ask bob@site.example"], "dashboards": {"tunnel_command": "ssh -J bob@login.site.example"}}
    )
    assert document["notes"] == ["ask [redacted]"]
    assert document["dashboards"]["tunnel_command"] == "ssh -J bob@login.site.example"


def test_a_secret_whose_name_is_the_key_goes() -> None:
    document = redact({"args": {"hf_access_token": "x1", "steps": "200", "max_tokens": "4096", "token": ""}})
    assert document["args"] == {"hf_access_token": REDACTED, "steps": "200", "max_tokens": "4096", "token": ""}


VIEWS: list[Callable[[Report], str]] = [
    to_markdown,
    to_html,
    lambda report: to_terminal(report, width=200, color=True),
    lambda report: to_json(report).decode(),
]


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_shows_a_secret(view: Callable[[Report], str]) -> None:
    secret = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    text = view(with_hostile_text(f"run --api-key Zx81Qq and {secret} at https://u:Pw99@h/ hf_access_token=Tk77"))
    for part in (secret, "Zx81Qq", "Pw99", "Tk77"):
        assert part not in text


@pytest.mark.parametrize("name", SAMPLES)
def test_reports_without_secrets_are_not_touched(name: str) -> None:
    assert REDACTED not in to_json(SAMPLES[name]()).decode()


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "token",
            "token=",
            "token: ",
            '"',
            "'token=",
            "--password ",
            "\\",
            "://",
            "://a@",
            "Bearer ",
            "Bearer a",
            "wandb ",
        ),
        *(
            "wandb0",
            "-----BEGIN PRIVATE KEY-----",
            "a@",
            "a@b.",
            "a.b@c.d",
            "login -p",
            "eyJaaaaaaaaa.",
            "1:",
            "A/",
            "sk-",
        ),
        *("sk-", "authorization: ", "cookie=", "signature=", "?sig=", "key =", "hf_", "x-", "--x"),
    ],
)
def test_time_is_linear_in_the_text(piece: str) -> None:
    def seconds(repeat: int) -> float:
        text = (piece * repeat)[:80_000]
        start = time.process_time()
        redact_text.__wrapped__(text)
        return time.process_time() - start

    count = 20_000 // len(piece)
    small, large = min(seconds(count) for _ in range(2)), seconds(4 * count)
    # Four times the text may take about four times as long; a quadratic expression would take sixteen times.
    assert large < 8 * small + 0.2, re.escape(piece)


@pytest.mark.parametrize(
    "text",
    [
        "mysql -u root -phunter2secret db",
        "mysqldump --host db -phunter2secret",
        "the password is hunter2secret",
        "passwd hunter2secret",
        "PGPASSWORD hunter2secret",
        "curl -sS -u joe:hunter2secret https://host/x",
        "SAS sig=hunter2secret%2F",
    ],
)
def test_passwords_of_clients_and_in_sentences(text: str) -> None:
    assert "hunter2" not in redact_text(text)


@pytest.mark.parametrize(
    "text",
    ["password is incorrect", "password for alice: denied", "mysql -P 3306 -p dbname", "http status 500: port 80 -u x"],
)
def test_what_only_speaks_of_passwords_stays(text: str) -> None:
    assert redact_text(text) == text
