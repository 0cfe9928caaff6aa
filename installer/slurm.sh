# shellcheck shell=sh disable=SC2034,SC2154
# What install.sh finds out about the site's Slurm: version, configuration, hooks that are there and hooks to add.
# Sourced by it; sets slurm_conf, version, slurm_user, cluster, epilog_dir, lines, restart, reconfigure, todo.

find_slurm() {
    for candidate in "$slurm_conf" /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf /usr/local/etc/slurm.conf; do
        [ -n "$candidate" ] && [ -r "$candidate" ] && { slurm_conf=$candidate; break; }
    done
    [ -r "${slurm_conf:-/nonexistent}" ] || die "no slurm.conf found; name it with --slurm-conf FILE"
    version=$({ sacct --version || scontrol --version || slurmctld -V; } 2>/dev/null | awk '{ print $2; exit }') || true
    [ -n "${version:-}" ] || die "none of Slurm's commands (sacct, scontrol, slurmctld) is here; install the Slurm client"
    slurm_user=$(setting SlurmUser)
    slurm_user=${slurm_user:-root}
    cluster=$(setting ClusterName)
    [ -n "$cluster" ] || die "$slurm_conf names no ClusterName; is it the right file?"
    id "$slurm_user" >/dev/null 2>&1 || die "SlurmUser $slurm_user does not exist on this host; create it, or install on the controller"
}

# setting NAME: value in slurm.conf, without the part that an earlier installation added
setting() {
    sed -e "/^# >>> slurm-triage/,/^# <<< slurm-triage/d" -e 's/#.*//' "$slurm_conf" |
        awk -F= -v name="$1" 'tolower($1) ~ "^[ \t]*" tolower(name) "[ \t]*$" { sub(/^[^=]*=/, ""); gsub(/^[ \t]+|[ \t]+$/, ""); value = $0 } END { print value }'
}

# Which of Slurm's hooks are used, and what has to be said about it.
plan_hooks() {
    epilog=$(setting Epilog) epilog_ctld=$(setting EpilogSlurmctld)
    jobcomp_type=$(setting JobCompType) jobcomp_loc=$(setting JobCompLoc)
    epilog_dir='' lines='' restart=no reconfigure=no todo=''
    case $epilog in
        */\*) epilog_dir=${epilog%/*} ;;
        '')
            epilog_dir=${slurm_conf%/*}/epilog.d
            lines="Epilog=$epilog_dir/*"
            reconfigure=yes ;;
        *)
            todo="$todo
  Epilog is the single script $epilog. To get kernel messages of the nodes as well, end that script with
      $libexec/epilog || true
  or make it a directory: Epilog=DIR/* with both scripts in it. Without, the controller's hook reports every job." ;;
    esac
    # Both, where both are free: only jobcomp sees jobs that never started, only the other runs on every requeue.
    case $epilog_ctld in
        '' | "$libexec/epilog-slurmctld") add_line "EpilogSlurmctld=$libexec/epilog-slurmctld" ;;
        *) todo="$todo
  EpilogSlurmctld is your $epilog_ctld. To have every run of a requeued job reported at once, call from it:
      $libexec/epilog-slurmctld || true" ;;
    esac
    case $jobcomp_type/$jobcomp_loc in
        / | jobcomp/none/* | none/* | "jobcomp/script/$libexec/jobcomp")
            add_line "JobCompType=jobcomp/script"
            add_line "JobCompLoc=$libexec/jobcomp" ;;
        *) todo="$todo
  JobCompType is $jobcomp_type already. Jobs that are cancelled before they start are found by asking accounting
  every ten minutes (reconcile_s in config.toml)." ;;
    esac
}

add_line() {
    lines="$lines${lines:+
}$1"
    restart=yes
}

# A site's file in epilog.d that cannot be executed drains nodes: not our doing, but better known before than after.
check_epilog_dir() {
    [ -d "$epilog_dir" ] || return 0
    for file in "$epilog_dir"/*; do
        [ -e "$file" ] || continue
        [ "${file##*/}" = 50-slurm-triage ] && continue
        [ -x "$file" ] && [ -f "$file" ] || say "WARNING: $file is no executable file; Slurm drains nodes for that"
    done
}
