# shellcheck shell=sh disable=SC2034,SC2154
# The program: a virtual environment of its own, or the Python that --python names. Sourced by install.sh; sets python,
# command.

install_program() {
    if [ -n "$given_python" ]; then
        [ -x "$given_python" ] || die "--python $given_python is not there"
        python=$given_python
        command="$python -m slurm_triage"
        (cd / && "$python" -c 'import slurm_triage.cli.main, hyperscan, orjson, jinja2, filelock') ||
            die "$python cannot import slurm_triage; install it there: $python -m pip install $here"
    else
        say "program in $prefix/venv"
        python=$prefix/venv/bin/python
        command=$prefix/venv/bin/slurm-triage
        [ "$dry" = yes ] || install_venv
    fi
    make_dir "$bin" 0755
    {
        printf '#!/bin/sh\n# slurm-triage (install.sh)\n'
        # Where it looks by itself needs no word.
        [ "$etc" = /etc/slurm-triage ] ||
            printf 'export SLURM_TRIAGE_CONFIG="${SLURM_TRIAGE_CONFIG-%s}"\n' "$etc/config.toml"
        printf 'exec %s "$@"\n' "$command"
    } | put "$bin/slurm-triage" 0755
}

install_venv() {
    find_python
    make_dir "$prefix" 0755
    if [ -e "$prefix/venv" ]; then
        # pip changes it step by step; a copy is what is gone back to.
        temporary aside tree "$prefix/.venv.$$"
        cp -a "$prefix/venv" "$prefix/.venv.$$"
        note moved "$prefix/venv" "$prefix/.venv.$$"
        # An installation that was killed leaves half a one.
        "$python" -m pip --version >/dev/null 2>&1 || rm -rf "$prefix/venv"
    fi
    if [ ! -e "$prefix/venv" ]; then
        note tree "$prefix/venv"
        "$base_python" -m venv "$prefix/venv"
    fi
    made "tree $prefix/venv"
    "$prefix/venv/bin/pip" install --quiet --disable-pip-version-check --upgrade "$here" ||
        die "pip could not install slurm-triage and what it needs; is a package index reachable?"
}

find_python() {
    for try in 1 2; do
        for base_python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
            "$base_python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && return 0
        done
        if [ "$try" = 2 ] || ! command -v apt-get >/dev/null; then break; fi
        say "installing python3 and python3-venv"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv >/dev/null
    done
    die "needs Python 3.10 or newer with the venv module; install it, or name one with --python"
}
