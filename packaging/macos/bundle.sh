#!/bin/sh
# Makes Nightshift.app and the zip of it that is released, from programs that were built on a Mac:
#
#   CGO_ENABLED=1 GOARCH=arm64 go build -o nightshift-arm64 ./cmd/nightshift
#   CGO_ENABLED=1 GOARCH=amd64 go build -o nightshift-amd64 ./cmd/nightshift
#   packaging/macos/bundle.sh VERSION OUT nightshift-arm64 nightshift-amd64
#
# With both programs the app is universal. It is signed with CODESIGN_IDENTITY, else ad hoc, which is enough
# for a Mac that gets it by the install line and not by a browser.
set -eu

[ $# -ge 3 ] || { echo "usage: $0 VERSION OUT PROGRAM..." >&2; exit 2; }
version=$1 out=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)

case $version in
*[!0-9A-Za-z.+-]* | '') echo "bundle: \"$version\" is no version" >&2; exit 1 ;;
esac
for program in "$@"; do
  [ -f "$program" ] || { echo "bundle: $program is not there; build it on a Mac first" >&2; exit 1; }
done
if [ $# -gt 1 ] && ! command -v lipo >/dev/null; then
  echo "bundle: lipo is missing; it comes with Xcode's command line tools, or give one program" >&2
  exit 1
fi

app=$out/Nightshift.app
rm -rf "$app"
mkdir -p "$app/Contents/MacOS" "$app/Contents/Resources"
sed "s/@VERSION@/$version/g" "$here/Info.plist" >"$app/Contents/Info.plist"
(cd "$here/../.." && CGO_ENABLED=0 go run ./tray/icon/mkicons "$app/Contents/Resources/nightshift.icns")
if [ $# -gt 1 ]; then
  lipo -create -output "$app/Contents/MacOS/nightshift" "$@"
else
  cp "$1" "$app/Contents/MacOS/nightshift"
fi
chmod 755 "$app/Contents/MacOS/nightshift"
if command -v codesign >/dev/null; then
  codesign --force --options runtime --sign "${CODESIGN_IDENTITY:--}" "$app"
else
  echo "bundle: codesign is missing, so the app is not signed" >&2
fi

zip=$out/nightshift-macos-universal.zip
rm -f "$zip"
if command -v ditto >/dev/null; then
  ditto -c -k --keepParent "$app" "$zip"
else
  (cd "$out" && zip -qr -X "$(basename "$zip")" Nightshift.app)
fi
echo "$zip"
