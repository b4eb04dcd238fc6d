#!/bin/sh
# Makes PNGs of the SVGs that `go test ./tui -update` wrote here: of those named, or of the fleet page,
# which is the one that is kept as a PNG too.
set -eu
cd "$(dirname "$0")"
command -v rsvg-convert >/dev/null || {
  echo "png.sh: rsvg-convert is missing (Debian: apt-get install librsvg2-bin fonts-dejavu-core)" >&2
  exit 1
}
[ $# -gt 0 ] || set -- tui-fleet.svg
for picture; do
  rsvg-convert -o "${picture%.svg}.png" "$picture"
done
