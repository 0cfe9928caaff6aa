"""The manual page in roff."""

from __future__ import annotations

import re
from collections.abc import Iterator

from commands import Argument, Command, every

_INTRODUCTION = """\
.SH NAME
slurm\\-triage \\- explains why a Slurm job ended the way it did
.SH SYNOPSIS
.B slurm\\-triage
.RB [ \\-\\-version ]
.RB [ \\-\\-debug ]
.IR JOB \\ ...
.br
.B slurm\\-triage
.I COMMAND
.RI [ options ]
.SH DESCRIPTION
.B slurm\\-triage
reads the log of a job once, together with what accounting says about it, and tells what broke first, which rank and
node it was, what it cost, and what to do next.
Slurm's hooks start it for every job that ends; by hand it works on any log, without Slurm.
.PP
A number alone is a job:
.B slurm\\-triage 7877
is the same as
.BR "slurm\\-triage show 7877" .
Flags mean what they mean to
.BR sacct (1).
.SH COMMANDS
"""

_REST = """\
.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
With
.BR \\-\\-exit\\-code :
a failure was found. Otherwise: something went wrong that has no number of its own.
.TP
.B 2
The command line or the configuration is wrong.
.TP
.B 3
A job or file is not known.
.TP
.B 4
Accounting cannot be reached.
.TP
.B 5
The result is not complete.
.PP
Errors are one sentence on standard error; the option
.B \\-\\-debug
shows where they come from.
.SH ENVIRONMENT
.TP
.B SLURM_TRIAGE_CONFIG
Configuration file instead of
.IR /etc/slurm\\-triage/config.toml .
.TP
.BI SLURM_TRIAGE_ NAME
Overrides the setting
.I name
of the configuration file, such as
.BR SLURM_TRIAGE_SPOOL .
.TP
.B SLURM_TRIAGE_LEDGER
Directory of the ledger, alone, instead of the site's and one's own.
.TP
.B SLURM_TRIAGE_OUTPUTS
Directories, separated by colons, in which jobs are looked up by id.
.TP
.B JOB_WORKSPACE
The same, as the launcher sets it.
.TP
.B SLURM_TRIAGE_FORMAT
Default of
.BR "slurm\\-triage list \\-o" .
.TP
.B SLURM_TRIAGE_CACHE_DIR
Where compiled rules are kept.
.TP
.B NO_COLOR
No colours, whatever the terminal.
.SH FILES
.TP
.I /etc/slurm\\-triage/config.toml
Settings; see
.BR "slurm\\-triage config show" .
.TP
.IR /etc/slurm\\-triage/rules.d ", " ~/.config/slurm\\-triage/rules.d
The site's and one's own rules.
.TP
.I /var/spool/slurm\\-triage
Events of jobs, written by the hooks.
.TP
.I /var/lib/slurm\\-triage/ledger
One record for each run of a job.
.TP
.IR triage.json ", " TRIAGE.md
The report, beside the job's log.
.SH EXAMPLES
.nf
slurm\\-triage 7877                          why did my job end?
slurm\\-triage log slurm\\-7877.out           the same without Slurm
slurm\\-triage list \\-u $USER \\-s F,TO \\-S now\\-2days
slurm\\-triage resubmit 7877                 the command line to run it again
slurm\\-triage bundle 7877 \\-\\-share          an archive for a public issue
.fi
.SH SEE ALSO
.BR sacct (1),
.BR sbatch (1),
.BR scontrol (1)
"""


def man(commands: tuple[Command, ...]) -> str:
    """The whole page. It has neither date nor version, so that it changes only when the command line does."""
    body = "".join(line + "\n" for name, command in every(commands) for line in _command(name, command))
    return f'.TH SLURM\\-TRIAGE 1 "" "slurm\\-triage" "User Commands"\n{_INTRODUCTION}{body}{_REST}'


def _command(name: str, command: Command) -> Iterator[str]:
    yield f'.SS "slurm\\-triage {_text(name)}{_synopsis(command)}"'
    description = re.sub(r"\s*\n\s*", " ", command.description.strip()) or _sentence(command.title)
    yield _text(description)
    for argument in (*command.positionals, *command.options):
        if argument.help and argument.names != ("-h", "--help"):
            yield ".TP"
            yield _heading(argument)
            yield _text(_sentence(argument.help))


def _synopsis(command: Command) -> str:
    words = ["\\fIACTION\\fR"] if command.actions else []
    if any(option.names != ("-h", "--help") for option in command.options):
        words.append("[\\fIoptions\\fR]")
    for positional in command.positionals:
        word = f"\\fI{_text(positional.shown_value)}\\fR" + (" ..." if positional.repeats else "")
        words.append(word if positional.required else f"[{word}]")
    return "".join(f" {word}" for word in words)


def _heading(argument: Argument) -> str:
    if not argument.names:
        return f"\\fI{_text(argument.shown_value)}\\fR"
    value = f" \\fI{_text(argument.value)}\\fR" if argument.value else ""
    if value and not argument.required:
        value = f" [{value.strip()}]"
    return ", ".join(f"\\fB{_text(name)}\\fR" for name in argument.names) + value


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", ")")) else ".")


def _text(text: str) -> str:
    """Free text that may stand anywhere in a line, also at its beginning."""
    escaped = (
        text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq").replace("`", "\\(ga")
    )
    return escaped if not escaped.startswith(".") else "\\&" + escaped
