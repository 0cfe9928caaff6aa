# shellcheck shell=sh disable=SC2034,SC2154
# pyslurm, which must be built against the very headers and library of the site's Slurm; its releases are numbered like
# Slurm's. Sourced by install.sh; sets accounting_note.

install_pyslurm() {
    release=$(printf %s "$version" | awk -F. '{ print $1 + 0 "." $2 + 0 }')
    if [ -n "$given_python" ]; then
        accounting_note="accounting through pyslurm if $given_python has it, else through sacct $version (slurm-triage doctor tells)"
        return 0
    fi
    reason=$(why_no_pyslurm) || true
    if [ -z "$reason" ] && [ "$dry" = yes ]; then
        accounting_note="accounting through pyslurm $release if the package index has it, else through sacct $version"
    elif [ -z "$reason" ] && { has_pyslurm || build_pyslurm; }; then
        accounting_note="accounting through pyslurm $release"
    else
        accounting_note="accounting through sacct $version: $reason
  To change that: install a pyslurm that is built for this Slurm with $prefix/venv/bin/pip, or name a Python that
  has one as pyslurm_python in $etc/config.toml. slurm-triage doctor tells which source is used."
    fi
}

# What is missing before anything is tried; nothing if nothing is.
why_no_pyslurm() {
    [ "$pyslurm" = yes ] || { echo "pyslurm was not wanted (--no-pyslurm)"; return; }
    headers=$(slurm_headers)
    [ -n "$headers" ] || { echo "Slurm's headers are not installed, so pyslurm cannot be built"; return; }
    number=$(sed -n 's/^#define[ \t]*SLURM_VERSION_NUMBER[ \t]*\(0x[0-9a-fA-F]*\).*/\1/p' "$headers/include/slurm/slurm_version.h")
    number=$((${number:-0}))
    headers_release=$((number >> 16 & 255)).$((number >> 8 & 255))
    [ "$headers_release" = "$release" ] || { echo "the headers in $headers/include/slurm are of Slurm $headers_release"; return; }
    [ -n "$(slurm_library)" ] || { echo "libslurmfull.so is not below $slurm_base/lib or $slurm_base/lib64"; return; }
    command -v "${CC:-cc}" >/dev/null || command -v gcc >/dev/null || { echo "there is no C compiler to build pyslurm with"; return; }
    [ "$dry" = yes ] || "$prefix/venv/bin/python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
        echo "Python's headers (python3-dev) are not installed, so pyslurm cannot be built"
}

slurm_headers() {
    for place in "$slurm_base" /usr /usr/local; do
        [ ! -e "$place/include/slurm/slurm_version.h" ] || { printf '%s\n' "$place"; return; }
    done
}

slurm_library() {
    for place in "$slurm_base"/lib64/slurm "$slurm_base"/lib/slurm "$slurm_base"/lib/*/slurm-wlm \
        "$slurm_base"/lib/*/slurm; do
        [ ! -e "$place/libslurmfull.so" ] || { printf '%s\n' "$place"; return; }
    done
}

# pyslurm ends its interpreter when it does not like slurm.conf, and may need a minute for that.
pyslurm_works() { (cd / && SLURM_CONF=$slurm_conf timeout 90 "$prefix/venv/bin/python" -c 'import pyslurm') >/dev/null 2>&1; }

has_pyslurm() {
    had=$("$prefix/venv/bin/python" -c 'from importlib.metadata import version; print(version("pyslurm"))' 2>/dev/null) || return 1
    case $had in "$release".*) pyslurm_works && return 0 ;; esac
    "$prefix/venv/bin/pip" uninstall --quiet --yes pyslurm
    return 1
}

build_pyslurm() {
    pip="$prefix/venv/bin/pip --disable-pip-version-check"
    if ! $pip download --quiet --no-deps --no-binary pyslurm -d "$work/pyslurm" "pyslurm==$release.*" >"$work/pyslurm.log" 2>&1; then
        reason="the package index has no pyslurm $release"
        return 1
    fi
    say "building pyslurm $release (minutes; --no-pyslurm leaves it out)"
    jobs=$(nproc 2>/dev/null) || jobs=1
    printf '[build_ext]\nparallel = %s\n' "$jobs" >"$work/build.cfg"
    if ! SLURM_LIB_DIR=$(slurm_library) SLURM_INCLUDE_DIR="$(slurm_headers)/include" PYSLURM_BUILD_JOBS=$jobs \
        DIST_EXTRA_CONFIG="$work/build.cfg" CFLAGS="${CFLAGS--O1 -g0}" \
        $pip install -v "$work"/pyslurm/pyslurm-* >>"$work/pyslurm.log" 2>&1; then
        cp "$work/pyslurm.log" "$prefix/pyslurm-build.log"
        made "file $prefix/pyslurm-build.log"
        reason="pyslurm $release does not build here (see $prefix/pyslurm-build.log)"
        return 1
    fi
    pyslurm_works && return 0
    reason="pyslurm $release was built but cannot be used with $slurm_conf"
    $pip uninstall --quiet --yes pyslurm
    return 1
}
