#!/usr/bin/env bash
# Makes the deb and the rpm packages from programs that are built already.
# Usage: packages.sh OUT VERSION ARCH BINDIR
# ARCH is amd64 or arm64; BINDIR holds interlock and interlock-tui and, for the package of the menu-bar
# app, nightshift. Without nightshift there its package is left out, which is said.
set -euo pipefail
cd "$(dirname "$0")/../.."
. packaging/release/common.sh

[ $# = 4 ] || die 'usage: packages.sh OUT VERSION ARCH BINDIR'
mkdir -p "$1"
out=$(realpath "$1") version=$2 arch=$3 bin=$(realpath "$4")
nfpm=$(packaging/dev/gotool.sh nfpm)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# Everything that nfpm reads is gathered below one folder, which its configuration names "stage".
stage=$work/stage
mkdir -p "$stage/bin" "$stage/lintian" "$stage/scripts"
go run ./internal/dev/manpages "$stage" "$version" "$SOURCE_DATE_EPOCH"
for page in packaging/man/*.1; do
  sed -e "s/@DATE@/$(date_of '%b %Y')/" -e "s/@VERSION@/$version/" "$page" >"$stage/man/${page##*/}"
done
gzip -9n "$stage"/man/*.1
cp packaging/nfpm/{copyright,serve.env,sysusers.conf,sh.interlock.serve.service} LICENSE "$stage"
cp packaging/nfpm/interlock.{postinst,prerm,postrm} "$stage/scripts"
for name in interlock nightshift; do cp "packaging/nfpm/lintian.$name" "$stage/lintian/$name"; done
cat >"$stage/changelog.yaml" <<CHANGES
- semver: $version
  date: $(date_of %Y-%m-%dT%H:%M:%SZ)
  packager: Interlock <packages@interlock.sh>
  deb:
    urgency: medium
    distributions: [stable]
  changes:
    - note: "Release $version."
    - note: "What changed is listed at https://interlock.sh"
CHANGES

# pages NAME FORMAT: the entries of a package's manual pages
pages() {
  local type='' page
  [ "$2" != rpm ] || type='type: doc, '
  for page in "$stage/man/$1"*.1.gz; do
    page=${page##*/}
    echo "  - { src: stage/man/$page, dst: /usr/share/man/man1/$page, $type""file_info: { mode: 0644 } }"
  done
}

package() { # name packages-of-its-commands...
  local name=$1
  shift
  packaging/release/licenses.sh "$@" | gzip -9n >"$stage/third-party-licenses.gz"
  for format in deb rpm; do
    pages "$name" $format >"$work/pages"
    sed -e "/@MANUAL PAGES@/{r $work/pages" -e 'd}' "packaging/nfpm/$name.yaml" >"$work/$name.yaml"
    # Debian's description begins with the synopsis and marks a new paragraph by a dot.
    [ $format = deb ] || sed -i -e '/^description:/{n;d}' -e 's/^  \.$//' "$work/$name.yaml"
    (cd "$work" && PACKAGE_ARCH=$arch PACKAGE_VERSION=$version \
      "$nfpm" package --config "$name.yaml" --packager $format --target "$out" >/dev/null)
  done
}

cp "$bin/interlock" "$bin/interlock-tui" "$stage/bin"
package interlock ./cmd/interlock ./cmd/interlock-tui

if [ -f "$bin/nightshift" ]; then
  cp "$bin/nightshift" "$stage/bin"
  cp packaging/linux/nightshift.desktop packaging/linux/nightshift.png "$stage"
  CGO_ENABLED=1 GOFLAGS="$GOFLAGS -tags=gles" package nightshift ./cmd/nightshift
else
  echo "packages.sh: $bin has no nightshift, so there is no package of it for $arch" >&2
fi
