#!/usr/bin/env bash
# Runs make targets one after the other and prints what each took. A stage that fails does not hide
# the ones after it; the exit code is 1 when any failed. The last line counts the Go tests.
# Usage: stages.sh TARGET...
set -euo pipefail

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export TEST_COUNTS=$tmp/counts # internal/dev/testsum appends "passed failed skipped" here
: >"$TEST_COUNTS"

failed=()
table=
started=$SECONDS
for stage in "$@"; do
  printf '\n== %s\n' "$stage"
  begin=$SECONDS
  outcome=ok
  "${MAKE:-make}" --no-print-directory "$stage" || {
    outcome=FAILED
    failed+=("$stage")
  }
  table+=$(printf '%-12s %5ds  %s' "$stage" $((SECONDS - begin)) "$outcome")$'\n'
done

printf '\n%s%-12s %5ds\n' "$table" total $((SECONDS - started))
[ ${#failed[@]} -eq 0 ] || printf 'failed stages: %s\n' "${failed[*]}"
awk '{ p += $1; f += $2; s += $3 } END { printf "%d passed, %d failed, %d skipped\n", p, f, s }' "$TEST_COUNTS"
[ ${#failed[@]} -eq 0 ]
