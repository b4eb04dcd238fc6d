# shellcheck shell=bash
# What the release scripts share. Sourced by bash scripts that stand in the root of the checkout.

# One set of build flags for everything, unless the caller builds what needs others.
export CGO_ENABLED=${CGO_ENABLED:-0} GOFLAGS=${GOFLAGS:--trimpath -buildvcs=false}

# The date of everything that is made is that of the commit, so that two builds are the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

need() { # program package
  command -v "$1" >/dev/null || die "$1 is missing; on Debian: apt-get install --no-install-recommends $2"
}

# ldflags VERSION: as the Makefile has them.
ldflags() {
  printf '%s' "-s -w -X interlock.sh/cli.Version=$1 -X main.version=$1"
}

# date_of FORMAT: the date of this build.
date_of() { LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" "+$1"; }
