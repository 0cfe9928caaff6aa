# shellcheck shell=sh disable=SC2034,SC2154
# What install.sh finds out about the site's Slurm: version, configuration, hooks that are there and hooks to add.
# Sourced by it; sets slurm_conf, version, slurm_base, slurm_user, cluster, hooks, epilog, epilog_dir, completion_log,
# lines, plugstack, needs, todo.

find_slurm() {
    for candidate in "$slurm_conf" /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf /usr/local/etc/slurm.conf; do
        [ -n "$candidate" ] && [ -r "$candidate" ] && { slurm_conf=$candidate; break; }
    done
    [ -r "${slurm_conf:-/nonexistent}" ] || die "no slurm.conf found; name it with --slurm-conf FILE"
    find_version
    [ -n "${version:-}" ] || die "none of Slurm's commands (sacct, scontrol, slurmctld) is here; install the Slurm client"
    program=$(command -v sacct || command -v scontrol || command -v slurmctld)
    program=$(readlink -f "$program")
    slurm_base=${program%/*/*}
    read_conf
    slurm_user=$(setting SlurmUser)
    slurm_user=${slurm_user:-root}
    cluster=$(setting ClusterName)
    [ -n "$cluster" ] || die "$slurm_conf names no ClusterName; is it the right file?"
    id "$slurm_user" >/dev/null 2>&1 || die "SlurmUser $slurm_user does not exist on this host; create it, or install on the controller"
}

find_version() {
    version=$({ sacct --version || scontrol --version || slurmctld -V; } 2>/dev/null | awk '{ print $2; exit }') || true
}

# Sets $conf: slurm.conf with the files that it includes, without the part that an earlier installation added and without
# comments. In one command, because a shell does not notice when the first of two fails.
read_conf() {
    conf=$(awk -v dir="${slurm_conf%/*}" -v begin="$block_begin" -v end="$block_end" '
        function show(file, line, inner, ours) {
            if (depth > 8) return
            depth++
            while ((getline line <file) > 0) {
                if (line == begin) ours = 1
                if (tolower(line) ~ /^[ \t]*include[ \t]/) {
                    inner = line
                    sub(/^[ \t]*[^ \t]+[ \t]+/, "", inner)
                    sub(/[ \t#].*$/, "", inner)
                    show(inner ~ /^\// ? inner : dir "/" inner)
                } else if (!ours) {
                    sub(/#.*/, "", line)
                    print line
                }
                if (line == end) ours = 0
            }
            close(file)
            depth--
        }
        BEGIN { show(ARGV[1]) }' "$slurm_conf")
}

# setting NAME: the value that counts; settings NAME: all of them, one a line
setting() { settings "$1" END; }
settings() {
    printf '%s\n' "$conf" | awk -v name="$1" -v last="${2-}" '
        index($0, "=") && tolower($0) ~ "^[ \t]*" tolower(name) "[ \t]*=" {
            sub(/^[^=]*=/, "")
            gsub(/^[ \t]+|[ \t]+$/, "")
            if ($0 ~ /^".*"$/) $0 = substr($0, 2, length($0) - 2)
            value = $0
            if (!last) print
        }
        END { if (last) print value }'
}

# Sets $hooks where nobody has said how ended jobs are learnt of. slurmctld's own line about each costs it nothing that
# can be measured; a script that it starts for each costs it 13 ms of processor time (22.05; docs/operations.md). The
# line needs accounting beside it, since a job's name may forge one, and that this host can read the file.
choose_way() {
    asked=$hooks why=''
    if [ "$hooks" != auto ]; then
        why='as you have asked for'
        return 0
    fi
    hooks=script why='as before'
    ! has_controller_hooks || return 0
    if [ "$spank" = yes ]; then
        why='--spank needs it'
        return 0
    fi
    if [ -e "$etc/config.toml" ]; then
        # What was chosen once stays: the worker's settings do.
        if grep -q '^completion_log *= *"/' "$etc/config.toml"; then
            ! log_problem >/dev/null || hooks=log
            has_node_epilog || asked=log
        elif is_without_hooks; then
            hooks=no
        fi
        return 0
    fi
    if ! uses_slurmdbd; then
        why='accounting does not go through slurmdbd'
    elif ! runs_slurmctld; then
        why='this host is not the only one that runs slurmctld'
    elif why=$(log_problem); then
        hooks=log why='nothing is started for it'
    else
        why=${why%%,*}
    fi
}

uses_slurmdbd() { case $(setting AccountingStorageType) in accounting_storage/slurmdbd | slurmdbd) ;; *) return 1 ;; esac; }

# Of an earlier installation, or put there by hand.
has_controller_hooks() {
    { block_of "$slurm_conf"; printf '%s\n' "$conf"; } | awk -v ours="$libexec/" '
        {
            gsub(/[ \t"]/, "")
            key = tolower(substr($0, 1, index($0, "=") - 1))
            if (key !~ /^(epilogslurmctld|prologslurmctld|jobcomploc)$/) next
            if (index(substr($0, length(key) + 2), ours) == 1) found = 1
        }
        END { exit !found }'
}

# Installed on this host earlier.
has_node_epilog() { grep -qs '^file .*/50-slurm-triage$' "$manifest"; }

# An earlier --no-hooks
is_without_hooks() {
    [ "$add_epilog" = no ] && [ -z "$(block_of "$slurm_conf")" ] && ! has_node_epilog &&
        grep -qx 'reconcile_s = 15' "$etc/config.toml" && grep -qx 'reconcile_lag_s = 5' "$etc/config.toml"
}

# This host, and no second one that would write a log of its own.
runs_slurmctld() {
    controllers=$(controllers)
    read -r self </proc/sys/kernel/hostname
    case ${controllers%%(*} in "$self" | "${self%%.*}" | "$self".* | localhost) ;; *) return 1 ;; esac
    [ "$(printf '%s\n' "$controllers" | grep -c .)" = 1 ]
}

controllers() { settings SlurmctldHost; settings ControlMachine; settings BackupController; }

# Before 23.11 a reconfigure leaves slurmctld the JobComp plugin that it has, and gives it the new JobCompLoc.
keeps_plugin() { printf '%s' "$version" | awk -F. '{ exit $1 * 100 + $2 >= 2311 }'; }

# slurmctld has our log open. It opens it again at each reconfigure, and ends where it cannot ("fatal: open", measured
# with 22.05 and 26.05).
writes_our_log() {
    folder=$(readlink -f "${own_completion_log%/*}") || return 1
    for process in /proc/[0-9]*; do
        { read -r name <"$process/comm"; } 2>/dev/null && [ "$name" = slurmctld ] || continue
        for descriptor in "$process"/fd/*; do
            case $(readlink "$descriptor") in "$folder"/*) return 0 ;; esac
        done
    done
    return 1
}

# Which of Slurm's hooks are used, and what has to be said about it.
plan_hooks() {
    epilog_dir='' lines='' needs=nothing todo='' completion_log=''
    if keeps_plugin && writes_our_log; then
        die "slurmctld writes $own_completion_log, and a reconfigure with another JobCompLoc would end it; run --uninstall, restart slurmctld, then this again"
    fi
    plan_epilog
    plan_jobcomp
    if ! printf '%s\n' "$lines" | grep -qF "=$libexec/" && ! has_controller_hooks; then
        # The site has scripts of its own in all places. Until ours are called from them, accounting is asked.
        hooks=none
    elif ! runs_slurmctld; then
        todo="$todo
  slurmctld runs on $(controllers | tr '\n' ' '): before slurm.conf names them, copy $libexec and $etc/hook.conf
  there, and let spool in hook.conf be a directory that it shares with this host (--spool), or use --no-hooks."
    fi
    plugstack=$(setting PlugStackConfig)
    plugstack=${plugstack:-${slurm_conf%/*}/plugstack.conf}
}

plan_epilog() {
    all=$(settings Epilog)
    epilog=$(printf '%s\n' "$all" | grep '/\*$' | tail -n 1)
    epilog=${epilog:-$all}
    case $epilog in
        */\*) epilog_dir=${epilog%/*} ;;
        '')
            epilog_dir=${slurm_conf%/*}/epilog.d
            if [ "$add_epilog" = yes ]; then
                add_line "Epilog=$epilog_dir/*" reconfigure
            else
                todo="$todo
  Slurm has no Epilog yet, so the nodes' kernel messages are not collected. Copy $epilog_dir/50-slurm-triage,
  $libexec and $etc/hook.conf to every node, then run this again with --epilog. Not before: Slurm drains
  every node on which Epilog=DIR/* matches no file."
            fi ;;
        "$libexec/epilog") ;;
        *)
            todo="$todo
  Epilog is the single script $epilog. To get kernel messages of the nodes as well, call from it, before its end:
      $libexec/epilog || true
  or make it a directory: Epilog=DIR/* with both scripts in it." ;;
    esac
}

# jobcomp is called for every end of every run, and nothing waits for it; a job stays COMPLETING until EpilogSlurmctld is
# over.
plan_jobcomp() {
    jobcomp_type=$(setting JobCompType)
    jobcomp_loc=$(setting JobCompLoc)
    case $jobcomp_type/$jobcomp_loc in
        / | jobcomp/none/* | none/* | "jobcomp/script/$libexec/jobcomp" | "script/$libexec/jobcomp")
            add_line "JobCompType=jobcomp/script" restart
            add_line "JobCompLoc=$libexec/jobcomp" restart ;;
        */script/* | script/*)
            plan_epilog_slurmctld
            todo="$todo
  JobCompLoc is your $jobcomp_loc. To have jobs reported that are cancelled before they start, call from it:
      $libexec/jobcomp || true" ;;
        *)
            plan_epilog_slurmctld
            todo="$todo
  JobCompType is $jobcomp_type already. Jobs that are cancelled before they start are found by asking accounting
  every ten minutes (reconcile_s in config.toml)." ;;
    esac
}

# Slurm is left as it is.
plan_no_hooks() {
    [ -n "$(setting AccountingStorageType)" ] || die "there is no AccountingStorageType in $slurm_conf, so nobody can be asked which jobs have ended; use hooks"
    epilog='' epilog_dir='' lines='' needs=nothing-new todo='' plugstack='' completion_log=''
    [ -z "$(block_of "$slurm_conf")" ] && [ "$spank" = no ] ||
        die "there are hooks of an earlier installation; run --uninstall first, then --no-hooks again"
}

# slurmctld writes a line about each ended job, into a file of ours or into the one that the site has already.
plan_completion_log() {
    epilog='' epilog_dir='' lines='' needs=nothing todo='' plugstack=''
    if [ "$spank" = yes ] || has_controller_hooks; then
        die "there are hooks of an earlier installation; run --uninstall first, then --completion-log again"
    fi
    # Who asks for this way alone has the nodes left as they are.
    { [ "$asked$add_epilog" = logno ] && ! has_node_epilog; } || plan_epilog
    uses_slurmdbd || todo="$todo
  Accounting does not go through slurmdbd: nobody can tell what the jobs were whose ends the lines report."
    problem=$(log_problem) || die "$problem"
    case $(setting JobCompType) in
        jobcomp/filetxt | filetxt)
            completion_log=$(site_log)
            if [ "$completion_log" != "$own_completion_log" ]; then
                [ -n "$lines" ] || needs=nothing-new
                return 0
            fi ;;
    esac
    completion_log=$own_completion_log
    [ -z "$(controllers)" ] || runs_slurmctld ||
        todo="$todo
  Not only this host is a controller ($(controllers | tr '\n' ' ')): make ${own_completion_log%/*} on each,
  writable for $slurm_user; where it cannot write there, slurmctld does not start. The worker must read that file."
    add_line "JobCompType=jobcomp/filetxt" restart
    add_line "JobCompLoc=$own_completion_log" restart
}

# Where Slurm writes it if nothing is said.
site_log() {
    jobcomp_loc=$(setting JobCompLoc)
    printf '%s\n' "${jobcomp_loc:-/var/log/slurm_jobcomp.log}"
}

# Why slurmctld cannot write such lines for us; succeeds if it can.
log_problem() {
    jobcomp_type=$(setting JobCompType)
    case $jobcomp_type in
        '' | jobcomp/none | none) return 0 ;;
        jobcomp/filetxt | filetxt) ;;
        *)
            echo "JobCompType is $jobcomp_type already, and Slurm has one; use hooks, or --no-hooks"
            return 1 ;;
    esac
    case $(site_log) in
        *[!A-Za-z0-9._/+@-]*) echo "JobCompLoc: only letters, digits and ._/+@- may be in the path $(site_log)" ;;
        /*)
            # The worker follows no links, and Slurm appends to whatever is there.
            [ -e "$(site_log)" ] || [ -L "$(site_log)" ] || return 0
            [ ! -f "$(site_log)" ] || [ -L "$(site_log)" ] || return 0
            echo "JobCompLoc $(site_log) is a link, or no file; name the file itself" ;;
        *) echo "JobCompLoc $(site_log) is no absolute path" ;;
    esac
    return 1
}

# Also with the plugin: what sbatch --triage= asks for is told to this hook and not to jobcomp.
plan_epilog_slurmctld() {
    [ -z "${epilog_slurmctld_planned-}" ] || return 0
    epilog_slurmctld_planned=yes
    plan_hook EpilogSlurmctld epilog-slurmctld "To have ends of jobs reported at once"
}

# plan_hook SETTING FILE PURPOSE: a hook of the controller, if the site has none of its own
plan_hook() {
    now=$(setting "$1")
    case $now in
        '' | "$libexec/$2") add_line "$1=$libexec/$2" restart ;;
        *) todo="$todo
  $1 is your $now. $3, call from it:
      $libexec/$2 || true" ;;
    esac
}

# add_line LINE NEEDS: from 23.11 on a reconfigure starts the daemons anew, before that it leaves the controller's hooks
add_line() {
    lines="$lines${lines:+
}$1"
    if [ "$2" = restart ] && keeps_plugin; then
        needs=restart
    elif [ "$needs" = nothing ]; then
        needs=reconfigure
    fi
}

# A site's file in epilog.d that cannot be executed, or fails, drains nodes: not our doing, but better known before.
check_epilog_dir() {
    [ -d "$epilog_dir" ] || return 0
    for file in "$epilog_dir"/*; do
        [ -e "$file" ] || [ -L "$file" ] || continue
        if [ ! -f "$file" ] || [ ! -x "$file" ]; then
            say "WARNING: $file is no executable file; Slurm drains nodes for that"
            continue
        fi
        first=$(head -c 256 "$file" | tr -d '\000' | head -n 1)
        case $first in '#!'*) ;; *) continue ;; esac
        first=${first#??}
        # shellcheck disable=SC2086 # interpreter and its arguments
        set -- $first
        if [ ! -x "${1-}" ]; then
            say "WARNING: $file wants ${1:-an interpreter that it does not name}, which is not here; Slurm drains nodes for that"
        else
            case ${1##*/} in
                sh | dash | bash | ksh)
                    "$1" -n "$file" 2>/dev/null || say "WARNING: $file has a syntax error ($1 -n $file); Slurm drains nodes for that" ;;
            esac
        fi
    done
    failed=$(timeout 10 sinfo -h -R -o '%n %E' 2>/dev/null | grep -i 'epilog error' | awk '{ print $1 }' | tr '\n' ' ') || true
    [ -z "$failed" ] || say "WARNING: a script in $epilog_dir has failed on $failed(drained: Epilog error); see slurmd's log there"
}
