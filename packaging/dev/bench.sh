#!/usr/bin/env bash
# Takes the measurements of docs/PERFORMANCE.md on the real programs and prints them as a table. With
# UPDATE=1 the table in the document is replaced. QUICK=1 takes small sizes, to see that everything
# works; ONLY=claim,through takes some of the measurements.
# A missed bound is a row that says so. The exit code is 1 only when something is broken.
set -euo pipefail
cd "$(dirname "$0")/../.."

export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"

document=docs/PERFORMANCE.md
begin='<!-- bench:begin -->'
end='<!-- bench:end -->'

if [ -n "${UPDATE:-}" ] && [ -n "${QUICK:-}${ONLY:-}" ]; then
  echo "bench: UPDATE=1 goes with neither QUICK nor ONLY: the document shows whole runs" >&2
  exit 1
fi

llama=$(packaging/dev/llama-server.sh)
model=$(packaging/dev/model.sh)
"${MAKE:-make}" --no-print-directory build

# Beside the cache, since a folder for temporary files may lie in memory and know no fsync.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/interlock-dev
mkdir -p "$cache"
work=$(mktemp -d "$cache/bench-XXXXXX")
trap 'rm -rf "$work"' EXIT

(cd bench && go build -o "$work/bench" .)
mkdir "$work/rig"
args=(-root . -bin bin -llama-server "$llama" -model "$model" -dir "$work/rig" -only "${ONLY:-}")
[ -z "${QUICK:-}" ] || args+=(-quick -command 'make bench QUICK=1')
if ! "$work/bench" "${args[@]}" >"$work/table.md"; then
  tail -n 20 "$work"/rig/*.log >&2 || true
  exit 1
fi
cat "$work/table.md"

[ -n "${UPDATE:-}" ] || exit 0
python3 - "$document" "$work/table.md" "$begin" "$end" <<'PY'
import sys
path, table, begin, end = sys.argv[1:]
text = open(path, encoding="utf-8").read()
head, _, rest = text.partition(begin)
_, found, tail = rest.partition(end)
if not found:
    sys.exit(f"bench: {path} has no {begin} … {end} to replace")
new = open(table, encoding="utf-8").read()
with open(path, "w", encoding="utf-8") as out:
    out.write(f"{head}{begin}\n{new}{end}{tail}")
PY
echo "bench: $document is updated"
