#!/bin/bash
# Stands in for the launcher's submit script: takes the same arguments, records the command line as that one does, and
# calls the real sbatch. With TEST_ONLY set, sbatch only says whether it would take the job.
set -eu
spec=$1
command=$(printf '%q ' "$0" "$@")
shift
IFS=: read -r model first second <<<"$spec"
case $spec in *:*:*) alias=$first tag=$second ;; *) alias='' tag=${first:-} ;; esac
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1") && shift; done
[ "${1:-}" != -- ] || shift
suffix=''
for argument; do argument=${argument#--} suffix+=-${argument//=/_}; done
name="JAX-$model${tag:+-$tag}$suffix"
printf '%s\n' "$spec" "${options[@]}" -- "$@" >last-arguments
job=$(sbatch ${TEST_ONLY:+--test-only} --parsable -J "$name" --output="outputs/%j-%x.log" "${options[@]}" _job.sbatch "$model" "$tag" "$alias" -- "$@")
[ -z "${TEST_ONLY:-}" ] || exit 0
mkdir -p "outputs/$job-$name/artifact"
printf '%s\n' "${RAY:+RAY=$RAY }${command% }" >"outputs/$job-$name/artifact/submit_cmd.txt"
echo "Submitted batch job $job"
