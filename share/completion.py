"""Completion for bash and zsh."""

from __future__ import annotations

from commands import Argument, Command, every

_BASH = r"""# Completion of slurm-triage for bash. Made by share/generate.py.

_slurm_triage() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command='' word options='' words=''
    COMPREPLY=()
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -* ]] && continue
        case "$command $word" in
@COMMANDS@) command="${command:+$command }$word" ;;
        esac
    done
    case "$command $prev" in
@VALUES@    esac
    case "$command" in
@OPTIONS@    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    elif [[ $words == @file ]]; then
        COMPREPLY=($(compgen -f -- "$cur"))
    elif [[ $words == @directory ]]; then
        COMPREPLY=($(compgen -d -- "$cur"))
    elif [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
    fi
}

complete -o filenames -F _slurm_triage slurm-triage
"""


def bash(commands: tuple[Command, ...]) -> str:
    """A function of nothing but bash: it needs no bash-completion package."""
    names = [name for name, _ in every(commands)]
    known = " | ".join('"' + (" " + name if " " not in name else name) + '"' for name in names)
    return (
        _BASH.replace("@COMMANDS@", f"            {known}")
        .replace("@VALUES@", "".join(_bash_value(name, option) for name, option in _valued(commands)))
        .replace("@OPTIONS@", _bash_top(commands) + "".join(_bash_options(*item) for item in every(commands)))
    )


def _valued(commands: tuple[Command, ...]) -> list[tuple[str, Argument]]:
    return [(name, option) for name, command in every(commands) for option in command.options if option.value]


def _bash_value(command: str, option: Argument) -> str:
    words = " | ".join(f'"{command} {name}"' for name in option.names)
    return f"        {words}) {_bash_reply(option)}; return ;;\n"


def _bash_reply(argument: Argument) -> str:
    kinds = {
        "words": f"COMPREPLY=($(compgen -W '{' '.join(argument.choices)}' -- \"$cur\"))",
        "file": 'COMPREPLY=($(compgen -f -- "$cur"))',
        "directory": 'COMPREPLY=($(compgen -d -- "$cur"))',
        "nothing": ":",
    }
    return kinds[argument.completes]


def _bash_top(commands: tuple[Command, ...]) -> str:
    return f"        '') words='{' '.join(c.name for c in commands)}' options='--help --version --debug' ;;\n"


def _bash_options(name: str, command: Command) -> str:
    options = " ".join(option for argument in command.options for option in argument.names)
    return f"        '{name}') words='{_bash_words(command)}' options='{options}' ;;\n"


def _bash_words(command: Command) -> str:
    if command.actions:
        return " ".join(action.name for action in command.actions)
    for positional in command.positionals:
        if positional.choices:
            return " ".join(positional.choices)
        if positional.completes != "nothing":
            return f"@{positional.completes}"
    return ""


def zsh(commands: tuple[Command, ...]) -> str:
    lines = ["#compdef slurm-triage", "# Completion of slurm-triage for zsh. Made by share/generate.py.", ""]
    lines += ["_slurm-triage() {", *_zsh_choice("slurm-triage", commands, with_jobs=True), "}", ""]
    lines += ['_slurm-triage "$@"', ""]
    return "\n".join(lines)


def _zsh_choice(title: str, commands: tuple[Command, ...], *, with_jobs: bool = False, depth: int = 1) -> list[str]:
    """A choice of commands and, below each, its own arguments."""
    pad = "    " * depth
    state = f"state{depth}"
    lines = [f"{pad}local curcontext=$curcontext state line {state}; typeset -A opt_args", f"{pad}local -a choices"]
    lines += [f"{pad}choices=("]
    lines += [f"{pad}    {_quoted(command.name + ':' + command.title)}" for command in commands]
    top = "'--version[print the version]' '--debug[show where errors come from]' " if with_jobs else ""
    lines += [f"{pad})", f"{pad}_arguments -C {top}'(- *)'{{-h,--help}}'[help]' '1: :->choice' '*:: :->rest'"]
    lines += [f"{pad}{state}=$state", f"{pad}case ${state} in", f"{pad}choice)"]
    lines += [f"{pad}    _describe -t commands {_quoted(title + ' command')} choices"]
    lines += [f"{pad}    _message 'job id'"] if with_jobs else []
    lines += [f"{pad}    ;;", f"{pad}rest)", f"{pad}    case $line[1] in"]
    for command in commands:
        lines.append(f"{pad}    {command.name})")
        if command.actions:
            lines += _zsh_choice(f"{title} {command.name}", command.actions, depth=depth + 2)
        else:
            arguments = [_zsh_option(a) for a in command.options] + _zsh_positionals(command)
            joined = f" \\\n{pad}            ".join(arguments)
            lines.append(f"{pad}        _arguments -s {joined}")
        lines.append(f"{pad}        ;;")
    return [*lines, f"{pad}    esac", f"{pad}    ;;", f"{pad}esac"]


def _zsh_option(option: Argument) -> str:
    about = "[" + option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]") + "]"
    value = ""
    if option.value:
        value = ("" if option.required else ":") + f":{option.value.replace(':', '')}:{_zsh_reply(option)}"
    if len(option.names) == 1:
        return _quoted(option.names[0] + about + value)
    return _quoted(f"({' '.join(option.names)})") + "{" + ",".join(option.names) + "}" + _quoted(about + value)


def _zsh_positionals(command: Command) -> list[str]:
    found = []
    for number, positional in enumerate(command.positionals, 1):
        place = "*" if positional.repeats else f"{number}" if positional.required else f"{number}:"
        found.append(_quoted(f"{place}:{positional.shown_value.replace(':', '')}:{_zsh_reply(positional)}"))
    return found


def _zsh_reply(argument: Argument) -> str:
    kinds = {"words": f"({' '.join(argument.choices)})", "file": "_files", "directory": "_files -/", "nothing": " "}
    return kinds[argument.completes]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
