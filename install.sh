#!/bin/sh
# Installs slurm-triage on a Slurm cluster's controller (or the host that runs its worker). docs/install.md explains all.
#
#   install.sh [options]              install or upgrade; twice in a row is harmless
#   install.sh --dry-run [options]    say what would be done, change nothing
#   install.sh --uninstall [--purge]  take away what was installed; --purge also configuration, spool and ledger
#   install.sh --demo [--keep]        bring up a one-machine cluster, run six jobs, show their reports
#
# Never asks, never restarts or reconfigures Slurm, never replaces a script of the site. Everything it changes is undone
# when a step fails.
#
#   --prefix DIR       program (default /opt/slurm-triage)       --etc DIR      configuration (/etc/slurm-triage)
#   --libexec DIR      hooks (/usr/libexec/slurm-triage)         --bin DIR      command (/usr/local/bin)
#   --spool DIR        events (/var/spool/slurm-triage)          --var DIR      ledger, state (/var/lib/slurm-triage)
#   --slurm-conf FILE  configuration of Slurm (default: $SLURM_CONF, else where Slurm looks)
#   --python FILE      a Python that has slurm-triage already; no virtual environment is made
#   --edit-slurm-conf  add what is missing to slurm.conf (a backup is kept); default: print the lines
#   --open-spool       anyone may write events (spool on a shared file system with root_squash, or user mode)
#   --no-pyslurm       do not try to install pyslurm; sacct is used
#   --no-systemd       no units, even where systemd runs
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=/opt/slurm-triage etc=/etc/slurm-triage libexec=/usr/libexec/slurm-triage bin=/usr/local/bin
spool=/var/spool/slurm-triage var=/var/lib/slurm-triage units=/etc/systemd/system
slurm_conf=${SLURM_CONF-} python='' action=install
dry=no edit=no open=no pyslurm=yes systemd=yes purge=no keep=no

die() { printf 'install.sh: %s\n' "$1" >&2; exit 1; }
say() { printf '%s\n' "$1"; }

while [ $# -gt 0 ]; do
    case $1 in
        --prefix | --etc | --libexec | --bin | --spool | --var | --slurm-conf | --python)
            [ $# -ge 2 ] || die "$1 needs a value"
            case $2 in /*) ;; *) die "$1 needs an absolute path, not '$2'" ;; esac
            case $2 in *[!A-Za-z0-9._/+@-]*) die "$1: only letters, digits and ._/+@- may be in the path '$2'" ;; esac ;;
    esac
    case $1 in
        --prefix) prefix=$2; shift ;;
        --etc) etc=$2; shift ;;
        --libexec) libexec=$2; shift ;;
        --bin) bin=$2; shift ;;
        --spool) spool=$2; shift ;;
        --var) var=$2; shift ;;
        --slurm-conf) slurm_conf=$2; shift ;;
        --python) python=$2; shift ;;
        --edit-slurm-conf) edit=yes ;;
        --open-spool) open=yes ;;
        --no-pyslurm) pyslurm=no ;;
        --no-systemd) systemd=no ;;
        --dry-run) dry=yes ;;
        --uninstall) action=uninstall ;;
        --purge) purge=yes ;;
        --demo) action=demo ;;
        --keep) keep=yes ;;
        -h | --help) sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//;p;}' "$0"; exit 0 ;;
        *) die "unknown option $1; see --help" ;;
    esac
    shift
done
manifest=$etc/installed-files
begin='# >>> slurm-triage (install.sh --uninstall removes this)'
end='# <<< slurm-triage'

# ---- what is undone when a step fails --------------------------------------------------------------------------------

journal=
undo() {
    status=$?
    trap - EXIT HUP INT TERM
    if [ "$status" != 0 ] && [ -n "$journal" ] && [ -s "$journal" ]; then
        say "install.sh: failed, undoing what was done" >&2
        sed '1!G;h;$!d' "$journal" | while IFS='	' read -r what one two; do
            case $what in
                made) rmdir "$one" 2>/dev/null || true ;;
                tree) rm -rf "$one" ;;
                new) rm -f "$one" ;;
                old) mv -f "$two" "$one" ;;
            esac
        done
    fi
    [ -z "$journal" ] || rm -rf "${journal%/*}"
    exit "$status"
}

note() { printf '%s\t%s\t%s\n' "$1" "$2" "${3-}" >>"$journal"; }

# make_dir DIR MODE [OWNER]
make_dir() {
    if [ ! -d "$1" ]; then
        say "directory $1 (mode $2${3:+, owner $3})"
        [ "$dry" = no ] || return 0
        parent=${1%/*}
        [ -d "$parent" ] || [ -z "$parent" ] || make_dir "$parent" 0755
        mkdir "$1"
        note made "$1"
    fi
    [ "$dry" = no ] || return 0
    chmod "$2" "$1"
    [ -z "${3-}" ] || chown "$3" "$1"
}

# put FILE MODE: standard input becomes the file, whole or not at all. The name appears only when it can be run: Slurm
# drains a node for a file in epilog.d that it cannot execute.
put() {
    fresh=${1%/*}/.${1##*/}.$$
    if [ "$dry" = yes ]; then
        cat >/dev/null
        say "file $1 (mode $2)"
        return 0
    fi
    cat >"$fresh"
    chmod "$2" "$fresh"
    if [ -e "$1" ] && cmp -s "$fresh" "$1"; then
        rm -f "$fresh"
        chmod "$2" "$1"
    else
        say "file $1 (mode $2)"
        if [ -e "$1" ]; then
            cp -p "$1" "${journal%/*}/$(wc -l <"$journal").old"
            note old "$1" "${journal%/*}/$(wc -l <"$journal").old"
        else
            note new "$1"
        fi
        mv -f "$fresh" "$1"
    fi
    printf '%s\n' "$1" >>"${journal%/*}/files"
}

# The hooks name their configuration and each other by fixed paths; another place is written into the copies.
placed() { sed -e "s|/etc/slurm-triage/hook.conf|$etc/hook.conf|g" -e "s|/usr/libexec/slurm-triage|$libexec|g" "$1"; }

# shellcheck source=installer/slurm.sh
. "$here/installer/slurm.sh"

# ---- install ---------------------------------------------------------------------------------------------------------

install_program() {
    if [ -n "$python" ]; then
        [ -x "$python" ] || die "--python $python is not there"
        command="$python -m slurm_triage"
        (cd / && "$python" -c 'import slurm_triage.cli.main, hyperscan, orjson, jinja2, filelock') ||
            die "$python cannot import slurm_triage; install it there: $python -m pip install $here"
    else
        say "program in $prefix/venv"
        command=$prefix/venv/bin/slurm-triage
        [ "$dry" = no ] || return 0
        find_python
        if [ ! -x "$prefix/venv/bin/python" ]; then
            make_dir "$prefix" 0755
            note tree "$prefix/venv"
            "$base_python" -m venv "$prefix/venv"
        fi
        "$prefix/venv/bin/pip" install --quiet --disable-pip-version-check --upgrade "$here" ||
            die "pip could not install slurm-triage and what it needs; is a package index reachable?"
        python=$prefix/venv/bin/python
    fi
    make_dir "$bin" 0755
    printf '#!/bin/sh\nexec %s "$@"\n' "$command" | put "$bin/slurm-triage" 0755
}

find_python() {
    for try in 1 2; do
        for base_python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
            "$base_python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && return 0
        done
        [ "$try" = 1 ] && command -v apt-get >/dev/null || break
        say "installing python3 and python3-venv"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv >/dev/null
    done
    die "needs Python 3.10 or newer with the venv module; install it, or name one with --python"
}

# pyslurm must be built against the very headers of the site's Slurm; its releases are numbered like Slurm's.
install_pyslurm() {
    release=$(printf %s "$version" | awk -F. '{ print $1 + 0 "." $2 + 0 }')
    if [ "$pyslurm" = no ] || [ "$dry" = yes ] || [ ! -x "$prefix/venv/bin/pip" ]; then
        accounting_note="accounting through sacct $version (pyslurm was not asked for)"
        [ "$dry" = no ] || accounting_note="accounting: pyslurm $release if the index has it and slurm's headers are here, else sacct"
        return 0
    fi
    if [ ! -e /usr/include/slurm/slurm.h ]; then
        accounting_note="accounting through sacct $version: Slurm's headers are not installed, so pyslurm cannot be built"
    elif "$prefix/venv/bin/pip" install --quiet --disable-pip-version-check "pyslurm==$release.*" >/dev/null 2>&1; then
        accounting_note="accounting through pyslurm $release"
    else
        accounting_note="accounting through sacct $version: the package index has no pyslurm $release that builds here"
    fi
    accounting_note="$accounting_note
  (to change that: $prefix/venv/bin/pip install pyslurm==VERSION, and accounting = \"pyslurm\" in $etc/config.toml)"
}

install_files() {
    make_dir "$etc" 0755
    make_dir "$libexec" 0755
    make_dir "$var" 0755
    make_dir "$var/ledger" 0755
    make_dir "$var/state" 0755
    owner=$slurm_user mode=0755
    [ "$open" = no ] || mode=1733
    make_dir "$spool" 0755
    make_dir "$spool/tmp" "$mode" "$owner"
    make_dir "$spool/new" "$mode" "$owner"
    make_dir "$spool/bad" 0700
    for file in "$here"/hooks/*; do
        [ -f "$file" ] || continue
        case $file in *.c | *.md) continue ;; esac
        mode=0644
        [ ! -x "$file" ] || mode=0755
        placed "$file" | put "$libexec/${file##*/}" "$mode"
    done
    placed "$here/epilog.d/50-slurm-triage" | put "$libexec/epilog" 0755
    printf 'spool=%s\n' "$spool" | put "$etc/hook.conf" 0644
    if [ ! -e "$etc/config.toml" ]; then
        printf '# Settings of slurm-triage; `slurm-triage config show --origin` lists all.\ncluster = "%s"\nspool = "%s"\nledger = "%s"\nstate = "%s"\ntrusted_users = ["root", "%s"]\n' \
            "$cluster" "$spool" "$var/ledger" "$var/state" "$slurm_user" | put "$etc/config.toml" 0644
    else
        say "kept $etc/config.toml"
    fi
}

# Last of all: from here on Slurm calls us.
install_hooks() {
    if [ -n "$epilog_dir" ]; then
        make_dir "$epilog_dir" 0755
        placed "$here/epilog.d/50-slurm-triage" | put "$epilog_dir/50-slurm-triage" 0755
    fi
    [ -n "$lines" ] || return 0
    if grep -qF "$begin" "$slurm_conf" && [ "$(sed -n "\\|^$begin|,\\|^$end|p" "$slurm_conf" | sed '1d;$d')" = "$lines" ]; then
        lines_done=yes
    elif [ "$edit" = yes ]; then
        say "adding to $slurm_conf:"
        printf '%s\n' "$lines" | sed 's/^/      /'
        if [ "$dry" = no ]; then
            cp -p "$slurm_conf" "$slurm_conf.before-slurm-triage"
            { sed "\\|^$begin|,\\|^$end|d" "$slurm_conf"; printf '%s\n%s\n%s\n' "$begin" "$lines" "$end"; } >"$slurm_conf.$$"
            chmod --reference="$slurm_conf" "$slurm_conf.$$"
            chown --reference="$slurm_conf" "$slurm_conf.$$"
            cp -p "$slurm_conf" "${journal%/*}/slurm.conf"
            note old "$slurm_conf" "${journal%/*}/slurm.conf"
            mv -f "$slurm_conf.$$" "$slurm_conf"
        fi
    fi
}

install_units() {
    worker_note="start the worker under your own supervisor:  $bin/slurm-triage worker"
    [ "$systemd" = yes ] && [ -d /run/systemd/system ] || return 0
    for unit in "$here"/systemd/*; do
        sed -e "s|/usr/local/bin/slurm-triage|$bin/slurm-triage|g" -e "s|/etc/slurm-triage|$etc|g" \
            -e "s|/var/spool/slurm-triage|$spool|g" -e "s|@SLURM_CONF@|$slurm_conf|g" "$unit" | put "$units/${unit##*/}" 0644
    done
    worker_note="the worker runs as slurm-triage-worker.service"
    [ "$dry" = no ] || return 0
    systemctl daemon-reload
    systemctl enable --now slurm-triage-worker.service
}

try_out() {
    [ "$dry" = no ] || return 0
    # A first triage, of one line: compiles the rules into the cache that serves everybody.
    echo 'first light' | SLURM_TRIAGE_CONFIG=$etc/config.toml $command log - >/dev/null ||
        die "the installed program does not work: $command log - fails"
    # The hook as Slurm's user: an event about no job, which is taken away again.
    env -i setpriv --reuid="$slurm_user" --clear-groups "$libexec/epilog-slurmctld"
    found=no
    for event in "$spool"/new/*.epilog-slurmctld.0.* "$spool"/bad/*.epilog-slurmctld.0.*; do
        [ ! -e "$event" ] || { found=yes; rm -f "$event"; }
    done
    [ "$found" = yes ] || die "the hook wrote no event into $spool as $slurm_user; check the directory's owner and mode"
}

do_install() {
    [ "$(id -u)" = 0 ] || [ "$dry" = yes ] || die "must be run as root (or use --dry-run)"
    find_slurm
    plan_hooks
    say "Slurm $version, cluster $cluster, $slurm_conf, SlurmUser $slurm_user"
    [ -z "$epilog_dir" ] || check_epilog_dir
    if [ "$dry" = no ]; then
        work=$(mktemp -d)
        journal=$work/journal
        : >"$journal"
        : >"$work/files"
        trap undo EXIT
        trap 'exit 130' HUP INT TERM
    fi
    install_program
    install_pyslurm
    install_files
    try_out
    lines_done=no
    install_hooks
    install_units
    if [ "$dry" = no ]; then
        { [ ! -e "$manifest" ] || cat "$manifest"; cat "${journal%/*}/files"; } | sort -u >"$etc/.installed-files"
        mv -f "$etc/.installed-files" "$manifest"
        : >"$journal"
    fi
    report_install
}

report_install() {
    say ''
    [ "$dry" = no ] && say "installed." || say "dry run: nothing was changed."
    say "  $accounting_note"
    say "  $worker_note"
    [ -z "$todo" ] || say "by hand, if you want it:$todo"
    if [ -n "$lines" ] && [ "$lines_done" = no ] && [ "$edit" = no ]; then
        say "add to $slurm_conf (or run again with --edit-slurm-conf):"
        printf '%s\n' "$lines" | sed 's/^/      /'
    fi
    [ -z "$epilog_dir" ] || say "copy $epilog_dir/50-slurm-triage, $libexec and $etc/hook.conf to the compute nodes for node events"
    if [ "$lines_done" = yes ]; then
        say "slurm.conf is as before: Slurm needs nothing."
    elif [ "$restart" = yes ]; then
        say "then: restart slurmctld (hooks of the controller are read only at its start)$([ "$reconfigure" = no ] || printf ', and scontrol reconfigure for the nodes')"
    elif [ "$reconfigure" = yes ]; then
        say "then: scontrol reconfigure"
    else
        say "Slurm needs neither a restart nor a reconfigure: epilog.d is read for every job."
    fi
}

# ---- uninstall -------------------------------------------------------------------------------------------------------

do_uninstall() {
    [ "$(id -u)" = 0 ] || [ "$dry" = yes ] || die "must be run as root (or use --dry-run)"
    [ -e "$manifest" ] || { say "nothing is installed ($manifest does not exist)"; exit 0; }
    run() { say "$*"; [ "$dry" = yes ] || "$@"; }
    if [ -d /run/systemd/system ] && [ -e "$units/slurm-triage-worker.service" ]; then
        run systemctl disable --now slurm-triage-worker.service
    fi
    # The hook first: Slurm must never meet one whose other half is gone.
    { grep '/50-slurm-triage$' "$manifest" || true; grep -v -e '/50-slurm-triage$' -e '/config.toml$' "$manifest" || true; } |
        while read -r file; do [ ! -e "$file" ] || run rm -f "$file"; done
    for candidate in "$slurm_conf" /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf; do
        if [ -n "$candidate" ] && grep -qsF "$begin" "$candidate"; then
            say "removing our lines from $candidate"
            if [ "$dry" = no ]; then
                cp -p "$candidate" "$candidate.$$"
                sed "\\|^$begin|,\\|^$end|d" "$candidate" >"$candidate.$$"
                mv -f "$candidate.$$" "$candidate"
            fi
            say "then: restart slurmctld, and scontrol reconfigure"
        fi
    done
    [ ! -d "$prefix/venv" ] || run rm -rf "$prefix/venv"
    run rm -f "$manifest"
    [ "$dry" = yes ] || rmdir "$libexec" "$prefix" 2>/dev/null || true
    if [ "$purge" = yes ]; then
        run rm -rf "$spool" "$var" "$etc" /var/cache/slurm-triage
    else
        say "kept: $etc/config.toml, $spool, $var (--purge removes them)"
    fi
}

# ---- demo ------------------------------------------------------------------------------------------------------------

do_demo() {
    [ "$(id -u)" = 0 ] || die "the demo needs root: it starts a Slurm cluster of its own on this machine"
    [ "$dry" = no ] || { say "would bring up a cluster in /srv/slurm-triage-demo, run six jobs and show their reports"; exit 0; }
    demo_venv=/var/cache/slurm-triage-demo/venv
    if [ -z "$python" ]; then
        find_python
        [ -x "$demo_venv/bin/python" ] || "$base_python" -m venv "$demo_venv"
        "$demo_venv/bin/pip" install --quiet --disable-pip-version-check "$here"
        python=$demo_venv/bin/python
    fi
    cd "$here"
    export PYTHONDONTWRITEBYTECODE=1
    set -- --python "$python"
    [ "$keep" = no ] || set -- "$@" --keep
    exec "$python" -m tests.service.demo "$@"
}

case $action in
    install) do_install ;;
    uninstall) do_uninstall ;;
    demo) do_demo ;;
esac
