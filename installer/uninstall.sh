# shellcheck shell=sh disable=SC2154
# Taking away what was installed, all but configuration, spool and ledger. Sourced by install.sh.
#
# Slurm drains every node on which Epilog=DIR/* matches no file, so an empty script stays in a directory that would be
# left empty, until neither slurm.conf nor slurmctld name that directory any more. In the same way JobCompLoc and our log
# stay until a slurmctld that writes it has been restarted, where it keeps its plugin until then: at a reconfigure it
# would open Slurm's own place, may not, and end (measured with 22.05).

do_uninstall() {
    [ "$(id -u)" = 0 ] || [ "$dry" = yes ] || die "must be run as root (or use --dry-run)"
    if [ "$purge" = yes ]; then [ -e "$manifest" ]; else grep -qs -e '^file ' -e '^tree ' -e '^conf ' "$manifest"; fi ||
        { say "nothing is installed ($manifest names nothing)"; exit 0; }
    use_places
    [ "$dry" = no ] || say "dry run: what would be done"
    find_conf
    check_conf_by_hand
    find_version
    log_stays=no
    if keeps_plugin && writes_our_log; then
        log_stays=yes
        { [ -n "$slurm_conf" ] && block_of "$slurm_conf" | grep -qxF "JobCompLoc=$own_completion_log"; } ||
            die "slurmctld still writes $own_completion_log; restart it (no reconfigure before that: it would end), then run this again; nothing was changed"
    fi
    stop_units
    remove_blocks
    remove_hooks
    remove_rest
    [ "$dry" = no ] || { say "dry run: nothing was changed."; return; }
    report_uninstall
}

# Where this installation is, whatever is the default or what another one uses.
use_places() {
    for place in $(of_manifest at); do
        path=${place#*=}
        case $place in
            prefix=*) prefix=$path ;;
            libexec=*) libexec=$path ;;
            spool=*) spool=$path ;;
            var=*) var=$path ;;
        esac
    done
    own_completion_log=$var/completed/jobs.log
}

# What does not work out is told at the end.
run() { say "$*"; [ "$dry" = yes ] || "$@" || true; }
of_manifest() { [ ! -e "$manifest" ] || sed -n "s|^$1 ||p" "$manifest"; }

find_conf() {
    for candidate in "$slurm_conf" "$(of_manifest uses)" /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf /usr/local/etc/slurm.conf; do
        [ -n "$candidate" ] && [ -r "$candidate" ] && { slurm_conf=$candidate; read_conf; return; }
    done
    slurm_conf=''
}

# Lines that the admin has put in himself: slurmctld (26.05) does not start when a hook that they name is not there.
check_conf_by_hand() {
    [ -n "$slurm_conf" ] || return 0
    found=$(printf '%s\n' "$conf" | sed 's/[ \t]*=[ \t]*/=/' | grep -F -e "=$libexec/" -e "=$own_completion_log") || return 0
    die "$slurm_conf names our hooks:
$found
remove these lines, restart slurmctld (from 23.11 on: scontrol reconfigure), then run this again; nothing was changed"
}

stop_units() {
    units_were=no
    [ -d /run/systemd/system ] || return 0
    for unit in $(of_manifest file | grep "^$units/" | sed 's|.*/||'); do
        case $unit in
            *.service | *.path | *.timer) units_were=yes; run systemctl --quiet disable --now "$unit" ;;
        esac
    done
}

remove_blocks() {
    unblocked=''
    for edited in $(of_manifest conf); do
        grep -qsF "$block_begin" "$edited" || continue
        say "removing our lines from $edited"
        unblocked=yes
        [ "$dry" = no ] || continue
        cp -a "$edited" "$edited.$$"
        without_block "$edited" >"$edited.$$"
        if [ "$log_stays" = yes ] && block_of "$edited" | grep -qxF "JobCompLoc=$own_completion_log"; then
            printf '%s\n%s\n%s\n' "$block_begin" "JobCompLoc=$own_completion_log" "$block_end" >>"$edited.$$"
        fi
        mv -f "$edited.$$" "$edited"
        # It was made by us if it has no backup.
        [ -s "$edited" ] || [ -e "$edited.before-slurm-triage" ] || rm -f "$edited"
    done
    for backup in $(of_manifest backup); do
        edited=${backup%.before-slurm-triage}
        if [ "$dry" = yes ] || cmp -s "$backup" "$edited"; then
            remove "$backup"
        else
            say "kept $backup, which differs from $edited"
        fi
    done
}

# The hooks in epilog.d first: Slurm must never meet one whose other half is gone.
remove_hooks() {
    stays=''
    for hook in $(of_manifest file | grep '/50-slurm-triage$'); do
        dir=${hook%/*}
        if [ -e "$hook" ] && is_last_in "$dir" && is_named_by_slurm "$dir"; then
            say "an empty script stays as $hook"
            stays=$hook
            [ "$dry" = yes ] || { printf '#!/bin/sh\n# slurm-triage was here\nexit 0\n' >"$hook.$$"; chmod 755 "$hook.$$"; mv -f "$hook.$$" "$hook"; }
        else
            remove "$hook"
        fi
    done
}

is_last_in() {
    for other in "$1"/*; do
        [ "$other" = "$1/50-slurm-triage" ] || [ ! -e "$other" ] || return 1
    done
}

# Also if slurmctld cannot be asked: then nobody knows.
is_named_by_slurm() {
    [ -z "$slurm_conf" ] || ! printf '%s\n' "$conf" | grep -qF "$1/" || return 0
    shown=$(timeout 20 scontrol show config 2>/dev/null) || return 0
    printf '%s\n' "$shown" | grep -qF "$1/"
}

# Configuration, and the script that stays. 50-slurm-triage is dealt with before.
is_kept() {
    case $1 in "$etc/config.toml" | "$etc/hook.conf" | */50-slurm-triage) return 0 ;; esac
    return 1
}

remove() { [ ! -e "$1" ] || run rm -f "$1"; }

remove_rest() {
    for file in $(of_manifest file); do
        is_kept "$file" || remove "$file"
    done
    for tree in $(of_manifest tree); do
        [ ! -d "$tree" ] || run rm -rf "$tree"
    done
    [ "$units_were" = no ] || run systemctl daemon-reload
    if [ "$purge" = yes ]; then
        [ "$log_stays" = yes ] || run rm -rf "$var/completed"
        run rm -rf "$spool/new" "$spool/tmp" "$spool/bad" "$var/ledger" "$var/state" "$etc/config.toml" "$etc/hook.conf"
    fi
    [ "$dry" = no ] || return 0
    for dir in $(of_manifest dir | sort -r); do
        case $purge$dir in
            yes"$etc" | no"$etc" | no"$spool" | no"$spool"/* | no"$var" | no"$var"/*) ;;
            *) [ ! -d "$dir" ] || rmdir "$dir" 2>/dev/null || true ;;
        esac
    done
}

# What is still there of what was made.
what_is_left() {
    [ ! -e "$manifest" ] || grep -e '^file ' -e '^tree ' -e '^dir ' "$manifest" | while read -r kind path; do
        case $kind/$path in file/"$etc/config.toml" | file/"$etc/hook.conf") continue ;; esac
        [ ! -e "$path" ] || printf '%s %s\n' "$kind" "$path"
    done
}

report_uninstall() {
    all=$(what_is_left)
    [ "$log_stays" = no ] || all="$all
$(grep -e '^uses ' -e '^conf ' -e '^backup ' "$manifest")"
    left=$(printf '%s\n' "$all" | sed -e '/^\(dir\|uses\|conf\|backup\) /d' -e "\\|^file ${stays:-/}\$|d" -e 's/^[a-z]* //')
    if [ -z "$all" ] || [ "$all" = "dir $etc" ]; then
        rm -f "$manifest"
        [ -z "$all" ] || rmdir "$etc" 2>/dev/null || true
    else
        { grep '^at ' "$manifest"; printf '%s\n' "$all"; } >"$manifest.$$"
        mv -f "$manifest.$$" "$manifest"
    fi
    say ''
    if [ -n "$left" ]; then
        say "install.sh: could not be removed: $(printf '%s' "$left" | tr '\n' ' ')" >&2
    else
        say "uninstalled."
    fi
    [ "$purge" = yes ] || say "  kept: $etc/config.toml, $etc/hook.conf, $spool, $var (--purge removes them)"
    if [ "$log_stays" = yes ]; then
        say "  then: restart slurmctld, and run install.sh --uninstall again. Until then JobCompLoc stays in slurm.conf and
  $own_completion_log where it is: without them, this slurmctld would end at a scontrol reconfigure."
        unblocked=''
    fi
    [ -z "$unblocked" ] || say "  then: restart slurmctld (from 23.11 on: scontrol reconfigure), and scontrol reconfigure for the nodes"
    [ -z "$stays" ] || say "  $stays is empty now and stays, because Slurm drains nodes whose
  Epilog=DIR/* matches no file. When that line is gone and Slurm reconfigured, run install.sh --uninstall again."
    say "  copies on compute nodes (epilog.d/50-slurm-triage, $libexec, $etc/hook.conf) are yours to remove"
    for worker in /proc/[0-9]*; do
        case $(tr '\0' ' ' <"$worker/cmdline" 2>/dev/null) in
            *"$prefix"/venv/bin/*\ worker*) say "  a worker is still at work: stop process ${worker#/proc/}" ;;
        esac
    done
    [ -z "$left" ] || exit 1
}
