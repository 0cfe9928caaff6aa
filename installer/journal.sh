# shellcheck shell=sh disable=SC2154
# Changing the file system so that every change can be undone. Sourced by install.sh.
#
# The journal has one line per change, written before the change is made: undoing what was not done yet does no harm.
# The manifest lists, for --uninstall, what an installation has made: "file PATH", "dir PATH", "tree PATH" (a directory
# with all that is in it), "conf PATH" (a file with our block of lines in it), "backup PATH" (what that was before); and
# "at NAME=PATH", where an option says that something is.

work='' journal='' recording=no

# Begin to keep the journal; from here on a failing command undoes everything.
begin_changes() {
    work=$(mktemp -d)
    journal=$work/journal
    : >"$journal"
    : >"$work/manifest"
    trap undo EXIT
    trap 'exit 130' HUP INT TERM
}

# From here on the manifest is written at once: if we are killed, the next installation goes on with it.
begin_manifest() {
    keep_old "$manifest"
    cat "$work/manifest" >>"$manifest"
    recording=yes
}

# All is well: what was made stays.
end_changes() {
    fresh=${manifest%/*}/.${manifest##*/}.$$
    temporary new file "$fresh"
    grep -v "\\.$$\$" "$manifest" >"$fresh"
    sort -u -o "$fresh" "$fresh"
    mv -f "$fresh" "$manifest"
    sed -n 's/^aside	//p' "$journal" | while read -r tree; do rm -rf "$tree"; done
    : >"$journal"
}

note() { printf '%s\t%s\t%s\n' "$1" "$2" "${3-}" >>"$journal"; }
made() {
    printf '%s\n' "$1" >>"$work/manifest"
    [ "$recording" = no ] || printf '%s\n' "$1" >>"$manifest"
}

# temporary UNDO KIND PATH: its name ends with our process id, so it is easily told when all is well
temporary() {
    note "$1" "$3"
    made "$2 $3"
}

undo() {
    status=$?
    trap - EXIT
    trap '' HUP INT TERM
    set +e
    if [ "$status" != 0 ] && [ -s "$journal" ]; then
        say "install.sh: failed, undoing what was done" >&2
        sed '1!G;h;$!d' "$journal" | while IFS='	' read -r what one two; do
            case $what in
                made) rmdir "$one" 2>/dev/null || [ ! -d "$one" ] ;;
                mode) chmod "${two%% *}" "$one" && chown "${two#* }" "$one" ;;
                new) rm -f "$one" ;;
                events) rm -f "$one"/new/*.epilog-slurmctld.0.* "$one"/bad/*.epilog-slurmctld.0.* ;;
                old) cp -a "$two" "$one.$$" && mv -f "$one.$$" "$one" ;;
                tree) rm -rf "$one" ;;
                aside) rm -rf "$one" ;;
                moved) [ ! -e "$two" ] || { rm -rf "$one" && mv "$two" "$one"; } ;;
                unit) systemctl --quiet disable --now "$one" ;;
                units) systemctl daemon-reload ;;
            esac || say "install.sh: could not undo: $what $one" >&2
        done
    fi
    [ -z "$work" ] || rm -rf "$work"
    exit "$status"
}

# make_dir DIR MODE [OWNER]: a directory that is there already keeps its mode and owner.
make_dir() {
    [ ! -d "$1" ] || return 0
    say "directory $1 (mode $2${3:+, owner $3})"
    [ "$dry" = no ] || return 0
    parent=${1%/*}
    [ -d "$parent" ] || [ -z "$parent" ] || make_dir_quietly "$parent"
    note made "$1"
    made "dir $1"
    # With mode and owner from the first moment: whoever goes on after a kill leaves them alone.
    fresh=${1%/*}/.${1##*/}.$$
    temporary made dir "$fresh"
    mkdir "$fresh"
    chmod "$2" "$fresh"
    [ -z "${3-}" ] || chown "$3" "$fresh"
    mv "$fresh" "$1"
}

make_dir_quietly() (
    say() { :; }
    make_dir "$1" 0755
)

# set_mode DIR MODE OWNER: for a directory of ours whose mode the options decide
set_mode() {
    [ "$dry" = no ] && [ "$(stat -c '0%a %U' "$1")" != "$2 $3" ] || return 0
    note mode "$1" "$(stat -c '%a %u:%g' "$1")"
    chmod "$2" "$1"
    chown "$3" "$1"
}

# Made by us, now or earlier: whatever else lies in our way belongs to the site.
is_ours() { [ -f "$1" ] && [ ! -L "$1" ] && { grep -qsxF "file $1" "$manifest" || grep -q 'slurm[-_]triage' "$1"; }; }

# put FILE MODE: standard input becomes the file, whole or not at all. The name appears only when it can be run: Slurm
# drains a node for a file in epilog.d that it cannot execute.
put() {
    if { [ -e "$1" ] || [ -L "$1" ]; } && ! is_ours "$1"; then
        cat >/dev/null
        die "$1 is there and is not ours; move it away, or choose another place (--help)"
    fi
    if [ "$dry" = yes ]; then
        cat >/dev/null
        say "file $1 (mode $2)"
        return 0
    fi
    fresh=${1%/*}/.${1##*/}.$$
    temporary new file "$fresh"
    cat >"$fresh"
    [ -s "$fresh" ] || die "$1 would be empty; is $here complete?"
    chmod "$2" "$fresh"
    made "file $1"
    if cmp -s "$fresh" "$1" && [ "$(stat -c '0%a' "$1")" = "$2" ]; then
        rm -f "$fresh"
        return 0
    fi
    say "file $1 (mode $2)"
    keep_old "$1"
    mv -f "$fresh" "$1"
}

# The file is about to be replaced or made.
keep_old() {
    if [ -e "$1" ]; then
        kept=$work/$(wc -l <"$journal").old
        cp -a "$1" "$kept"
        note old "$1" "$kept"
    else
        note new "$1"
    fi
}

# edit_conf FILE LINES: our block of lines at the end of the file, in place of an earlier one. Keeps owner and mode.
edit_conf() {
    real=$(readlink -f "$1")
    say "adding to $real:"
    printf '%s\n' "$2" | sed 's/^/      /'
    [ "$dry" = no ] || return 0
    keep_old "$real"
    fresh=${real%/*}/.${real##*/}.$$
    temporary new file "$fresh"
    if [ -e "$real" ]; then
        backup=$real.before-slurm-triage
        # Also one that a killed run left behind: by its name it is ours.
        made "backup $backup"
        if [ ! -e "$backup" ]; then
            note new "$backup"
            cp -a "$real" "$fresh"
            mv "$fresh" "$backup"
        fi
        cp -a "$real" "$fresh"
        without_block "$real" >"$fresh"
    fi
    printf '%s\n%s\n%s\n' "$block_begin" "$2" "$block_end" >>"$fresh"
    # Noted first: a run that is killed here leaves lines that the next one takes for its own, and does not note again.
    made "conf $real"
    mv -f "$fresh" "$real"
}

without_block() { sed "\\|^$block_begin|,\\|^$block_end|d" "$1"; }
block_of() { sed -n "\\|^$block_begin|,\\|^$block_end|p" "$1" | sed '1d;$d'; }
