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
#   --epilog           set Epilog=DIR/* if Slurm has no Epilog yet; every node must have our files by then
# How the worker learns that a job has ended; without any of these, the first way that this site allows:
#   --completion-log   slurmctld starts nothing: it writes a line about each ended job into a file that the worker reads
#   --jobcomp-script   slurmctld starts a script for each ended job
#   --no-hooks         nothing in slurm.conf: accounting is asked every 15 s which jobs have ended
#   --spank            build the plugin for sbatch --triage=on|off|watch, and report starts of jobs
#   --open-spool       anyone may write events (spool on a shared file system with root_squash, or user mode)
#   --no-pyslurm       do not try to install pyslurm; sacct is used
#   --no-systemd       no units, even where systemd runs
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=/opt/slurm-triage etc=/etc/slurm-triage libexec=/usr/libexec/slurm-triage bin=/usr/local/bin
spool=/var/spool/slurm-triage var=/var/lib/slurm-triage units=/etc/systemd/system
slurm_conf=${SLURM_CONF-} given_python='' action=install
dry=no edit=no open=no pyslurm=yes systemd=yes purge=no keep=no add_epilog=no spank=no hooks=auto

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
        --python) given_python=$2; shift ;;
        --edit-slurm-conf) edit=yes ;;
        --epilog) add_epilog=yes ;;
        --spank) spank=yes ;;
        --completion-log) hooks=log ;;
        --jobcomp-script) hooks=script ;;
        --no-hooks) hooks=no ;;
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
[ "$purge" = no ] || [ "$action" = uninstall ] || die "--purge goes with --uninstall"
[ "$hooks" = auto ] || [ "$hooks" = script ] || [ "$spank" = no ] || die "--spank goes with neither --completion-log nor --no-hooks"
[ "$hooks" != no ] || [ "$add_epilog" = no ] || die "--no-hooks goes without --epilog"
[ "$keep" = no ] || [ "$action" = demo ] || die "--keep goes with --demo"
manifest=$etc/installed-files
own_completion_log=$var/completed/jobs.log
block_begin='# >>> slurm-triage (install.sh --uninstall removes this)'
block_end='# <<< slurm-triage'

# shellcheck source=installer/journal.sh
. "$here/installer/journal.sh"
# shellcheck source=installer/slurm.sh
. "$here/installer/slurm.sh"
# shellcheck source=installer/program.sh
. "$here/installer/program.sh"
# shellcheck source=installer/pyslurm.sh
. "$here/installer/pyslurm.sh"
# shellcheck source=installer/uninstall.sh
. "$here/installer/uninstall.sh"

do_install() {
    [ "$(id -u)" = 0 ] || [ "$dry" = yes ] || die "must be run as root (or use --dry-run)"
    find_slurm
    # What was asked for once stays.
    [ ! -e "$libexec/slurm_triage.so" ] || spank=yes
    ! block_of "$slurm_conf" | grep -q '^Epilog=' || add_epilog=yes
    choose_way
    case $hooks in
        script) plan_hooks ;; # may find that all places are taken: none
        log) plan_completion_log ;;
        no) plan_no_hooks ;;
    esac
    say "Slurm $version, cluster $cluster, $slurm_conf, SlurmUser $slurm_user"
    [ -z "$epilog_dir" ] || check_epilog_dir
    if [ "$dry" = yes ]; then
        say "dry run: what would be done"
    else
        begin_changes
        made "uses $slurm_conf"
        for place in "prefix=$prefix" "libexec=$libexec" "spool=$spool" "var=$var"; do made "at $place"; done
    fi
    make_dir "$etc" 0755
    [ "$dry" = yes ] || begin_manifest
    install_program
    install_pyslurm
    install_files
    install_spank
    try_out
    install_hooks
    install_units
    [ "$dry" = yes ] || end_changes
    report_install
}

# The hooks name their configuration and each other by fixed paths; another place is written into the copies.
placed() { sed -e "s|/etc/slurm-triage/hook.conf|$etc/hook.conf|g" -e "s|/usr/libexec/slurm-triage|$libexec|g" "$1"; }

install_files() {
    make_dir "$libexec" 0755
    make_dir "$var" 0755
    make_dir "$var/ledger" 0755
    make_dir "$var/state" 0755
    owner=$slurm_user mode=0755
    [ "$open" = no ] || mode=01733
    make_dir "$spool" 0755
    for name in tmp new; do
        make_dir "$spool/$name" "$mode" "$owner"
        [ "$open" = no ] || set_mode "$spool/$name" "$mode" "$owner"
    done
    make_dir "$spool/bad" 0700
    [ "$completion_log" != "$own_completion_log" ] || make_dir "${own_completion_log%/*}" 0750 "$slurm_user"
    for file in "$here"/hooks/*; do
        [ -f "$file" ] || continue
        mode=0644
        [ ! -x "$file" ] || mode=0755
        placed "$file" | put "$libexec/${file##*/}" "$mode"
    done
    placed "$here/epilog.d/50-slurm-triage" | put "$libexec/epilog" 0755
    if [ -e "$etc/hook.conf" ]; then
        say "kept $etc/hook.conf"
        grep -qx "spool=$spool" "$etc/hook.conf" || say "WARNING: $etc/hook.conf does not say spool=$spool; events go elsewhere"
    else
        printf '# Settings of the slurm-triage hooks.\nspool=%s\nguard=%s\n' "$spool" "$(guard)" | put "$etc/hook.conf" 0644
    fi
    reads_log='reads it'
    if [ -e "$etc/config.toml" ]; then
        say "kept $etc/config.toml"
        case $hooks in no | none) false ;; esac || grep -q '^reconcile_s *=' "$etc/config.toml" ||
            say "WARNING: without hooks reports come every ten minutes; set reconcile_s and reconcile_lag_s in $etc/config.toml"
        if [ "$hooks" = log ] && ! grep -qx "completion_log = \"$completion_log\"" "$etc/config.toml"; then
            say "WARNING: $etc/config.toml does not say completion_log = \"$completion_log\"; reports come every ten minutes"
            reads_log='does not read it: see the warning above'
        fi
    else
        printf '# Settings of slurm-triage. All of them: slurm-triage config show --origin\ncluster = "%s"\nspool = "%s"\nledger = "%s"\nstate = "%s"\ntrusted_users = ["root", "%s"]\n' \
            "$cluster" "$spool" "$var/ledger" "$var/state" "$slurm_user" | with_pace | put "$etc/config.toml" 0644
    fi
}

# How the worker learns of ended jobs where no hook tells it.
with_pace() {
    cat
    case $hooks in
        log) printf 'completion_log = "%s"\n' "$completion_log" ;;
        no | none) printf 'reconcile_s = 15\nreconcile_lag_s = 5\n' ;;
    esac
}

# Hooks of the controller need nobody to end them where the spool cannot hang: on a disk of this host, and written by
# Slurm alone (others could leave a pipe in their way).
guard() {
    on=${spool%/*}
    [ ! -d "$spool" ] || on=$spool
    case $open/$(stat -f -c %T "${on:-/}" 2>/dev/null) in
        no/btrfs | no/ext2/ext3 | no/f2fs | no/jfs | no/overlayfs | no/ramfs | no/reiserfs | no/tmpfs | no/xfs | no/zfs) echo off ;;
        *) echo on ;;
    esac
}

# The plugin for sbatch --triage. Without compiler or headers only this option is missing.
install_spank() {
    spank_note=''
    [ "$spank" = yes ] || return 0
    if [ "$dry" = yes ]; then
        say "file $libexec/slurm_triage.so (mode 0755)"
    elif problem=$(CPPFLAGS="-I$(slurm_headers)/include" sh "$here/hooks/spank/build" "$work" 2>&1); then
        put "$libexec/slurm_triage.so" 0755 <"$work/slurm_triage.so"
    else
        spank_note="$problem"
        spank=no
        return 0
    fi
    plan_hook PrologSlurmctld prolog-slurmctld "To have jobs of sbatch --triage=watch watched"
    plan_epilog_slurmctld
}

# Slurm calls us from here on.
install_hooks() {
    if [ -n "$epilog_dir" ]; then
        make_dir "$epilog_dir" 0755
        placed "$here/epilog.d/50-slurm-triage" | put "$epilog_dir/50-slurm-triage" 0755
    fi
    by_hand=''
    add_lines "$slurm_conf" "$lines"
    [ "$spank" = no ] || add_lines "$plugstack" "optional $libexec/slurm_triage.so"
}

# add_lines FILE LINES: into the file if that was asked for and they are not there yet, else into $by_hand
add_lines() {
    missing=$(printf '%s\n' "$2" | while read -r line; do
        is_line_of "$1" "$line" || printf '%s\n' "$line"
    done)
    if [ -z "$missing" ] || { [ -e "$1" ] && [ "$(block_of "$1")" = "$missing" ]; }; then
        [ "$1" != "$slurm_conf" ] || [ "$needs" = nothing ] || needs=nothing-new
    elif [ "$edit" = yes ]; then
        edit_conf "$1" "$missing"
    else
        by_hand="$by_hand
add to $1 (or run again with --edit-slurm-conf):
$(printf '%s\n' "$missing" | sed 's/^/      /')"
    fi
}

# Put there by the admin, outside of our block.
is_line_of() {
    if [ "$1" = "$slurm_conf" ]; then
        [ -z "$2" ] || [ "$(setting "${2%%=*}")" = "${2#*=}" ]
    else
        [ -e "$1" ] && without_block "$1" | grep -qxF "$2"
    fi
}

install_units() {
    worker_note="start the worker under your own supervisor:  chrt --idle 0 $bin/slurm-triage worker"
    [ "$systemd" = yes ] && [ -d /run/systemd/system ] || return 0
    [ "$dry" = yes ] || note units "$units"
    for unit in "$here"/systemd/*; do
        sed -e "s|/usr/local/bin/slurm-triage|$bin/slurm-triage|g" -e "s|/etc/slurm-triage|$etc|g" \
            -e "s|/var/spool/slurm-triage|$spool|g" -e "s|@SLURM_CONF@|$slurm_conf|g" \
            -e "/@COMPLETION_LOG@/{${completion_log:+s|@COMPLETION_LOG@|$completion_log|;b};d;}" "$unit" | put "$units/${unit##*/}" 0644
    done
    worker=slurm-triage-worker.service
    worker_note="the worker runs as $worker"
    [ "$dry" = no ] || return 0
    systemctl daemon-reload
    if systemctl --quiet is-enabled slurm-triage-spool.path 2>/dev/null; then
        worker_note="a worker is started for every event by slurm-triage-spool.path, as before"
    elif systemctl --quiet is-enabled $worker 2>/dev/null; then
        systemctl restart $worker
    else
        note unit $worker
        systemctl --quiet enable --now $worker
    fi
}

try_out() {
    [ "$dry" = no ] || return 0
    # A first triage, of one line: compiles the rules into the cache that serves everybody.
    if [ ! -d /var/cache/slurm-triage ]; then
        note tree /var/cache/slurm-triage
        made "tree /var/cache/slurm-triage"
    fi
    (cd / && echo 'first light' | SLURM_TRIAGE_CONFIG=$etc/config.toml $command log - >/dev/null) ||
        die "the installed program does not work: $command log - fails"
    # The hook as Slurm's user: an event about no job, which is taken away again.
    note events "$spool"
    env -i setpriv --reuid="$slurm_user" --clear-groups "$libexec/epilog-slurmctld"
    found=no
    for event in "$spool"/new/*.epilog-slurmctld.0.* "$spool"/bad/*.epilog-slurmctld.0.*; do
        [ -e "$event" ] || continue
        found=yes
        rm -f "$event"
    done
    [ "$found" = yes ] || die "the hook wrote no event into $spool as $slurm_user; check the directory's owner and mode"
    [ "$completion_log" != "$own_completion_log" ] || try_log
}

# slurmctld does not start where it cannot write its log of ended jobs, so that is tried before slurm.conf names it.
try_log() {
    [ -e "$completion_log" ] || note new "$completion_log"
    # shellcheck disable=SC2016 # for the inner shell
    setpriv --reuid="$slurm_user" --regid="$(id -g "$slurm_user")" --init-groups sh -c ': >>"$1"' sh "$completion_log" ||
        die "$slurm_user cannot write $completion_log; check owner and mode of the directories (namei -l), or use --jobcomp-script"
    # Its unit may show slurmctld another file system (ProtectSystem=).
    for process in /proc/[0-9]*; do
        { read -r name <"$process/comm"; } 2>/dev/null && [ "$name" = slurmctld ] || continue
        its_conf=$(tr '\000' '\n' <"$process/environ" | sed -n 's/^SLURM_CONF=//p')
        [ "${its_conf:-$slurm_conf}" = "$slurm_conf" ] && cmp -s "$process/root$slurm_conf" "$slurm_conf" || continue
        true >>"$process/root$completion_log" ||
            die "slurmctld (process ${process#/proc/}) cannot write $completion_log; see its unit (systemctl cat slurmctld), or use --jobcomp-script"
    done
}

report_install() {
    say ''
    if [ "$dry" = no ]; then say "installed."; else say "dry run: nothing was changed."; fi
    case $hooks in
        log) say "  slurmctld writes a line about each ended job into $completion_log, and the worker $reads_log"
            [ "$completion_log" != "$own_completion_log" ] ||
                say "  (slurmctld ends at a start or a reconfigure where it cannot write it: --uninstall before you move or remove $var)" ;;
        script) say "  slurmctld starts a script in $libexec for each ended job ($why)" ;;
        none) say "  nothing that slurmctld starts is ours (you have scripts of your own in all places, see below):
  accounting is asked every 15 s which jobs have ended" ;;
        no) say "  accounting is asked every 15 s which jobs have ended" ;;
    esac
    say "  $accounting_note"
    say "  $worker_note"
    [ -z "$spank_note" ] || say "  $spank_note"
    [ -z "$todo" ] || say "by hand, if you want it:$todo"
    [ -z "$by_hand" ] || say "${by_hand#?}"
    [ -z "$epilog" ] && [ "$add_epilog" = no ] || [ -z "$epilog_dir" ] || say "for node events copy $epilog_dir/50-slurm-triage, $libexec and $etc/hook.conf to the compute nodes;
  they and the worker must share the directory that hook.conf calls spool"
    [ "$spank" = no ] || say "for sbatch --triage, submit hosts need $libexec/slurm_triage.so and the line in $plugstack, too"
    case $needs in
        restart) say "then: restart slurmctld (it reads these lines only when it starts), then scontrol reconfigure, so that all daemons
  have read the same slurm.conf" ;;
        reconfigure) say "then: scontrol reconfigure" ;;
        nothing-new) say "slurm.conf is as before: Slurm needs nothing." ;;
        *) say "Slurm needs neither a restart nor a reconfigure." ;;
    esac
}

do_demo() {
    [ "$(id -u)" = 0 ] || die "the demo needs root: it starts a Slurm cluster of its own on this machine"
    [ "$dry" = no ] || { say "would bring up a cluster in /srv/slurm-triage-demo, run six jobs and show what is said of them"; exit 0; }
    demo_venv=/var/cache/slurm-triage-demo/venv
    python=$given_python
    if [ -z "$python" ]; then
        find_python
        say "== installing slurm-triage for the demo in $demo_venv (kept for the next time)"
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
esac; exit # nothing more is read, so this file may be replaced meanwhile
