package icon

import (
	"encoding/binary"

	"interlock.sh/tray"
)

// app is the app's own picture: the moon without a mark, in its colour.
const app tray.Mood = "app"

// App is the picture of the app itself as PNG, for launchers and windows.
func App(size int) []byte { return PNG(app, size) }

// ICNS is the app's picture as macOS wants it in a bundle: one file with a PNG for each size.
func ICNS() []byte {
	var body []byte
	for _, p := range []struct {
		kind string
		size int
	}{{"icp4", 16}, {"icp5", 32}, {"ic07", 128}, {"ic08", 256}, {"ic09", 512}} {
		body = append(body, chunk(p.kind, App(p.size))...)
	}
	return chunk("icns", body)
}

// chunk is a block of the format: a name of four letters, the length with this head, the bytes.
func chunk(kind string, data []byte) []byte {
	out := binary.BigEndian.AppendUint32([]byte(kind), uint32(len(data)+8))
	return append(out, data...)
}
