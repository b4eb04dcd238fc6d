package icon_test

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"slices"
	"testing"

	"interlock.sh/tray"
	"interlock.sh/tray/icon"
)

var moods = []tray.Mood{tray.Trouble, tray.Working, tray.Coming, tray.Idle, tray.Resting}

func decode(t *testing.T, b []byte) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestMoodsAreToldApart(t *testing.T) {
	seen := map[string]tray.Mood{}
	for _, m := range moods {
		b := icon.PNG(m, 44)
		if other, ok := seen[string(b)]; ok && !(m == tray.Resting && other == tray.Idle) {
			t.Errorf("%q looks as %q", m, other)
		}
		seen[string(b)] = m
	}
}

func TestPicturesHaveTheirSizeAndClearCorners(t *testing.T) {
	for _, size := range []int{1, 16, 22, 44, 128} {
		for _, m := range moods {
			for _, b := range [][]byte{icon.PNG(m, size), icon.Template(m, size)} {
				img := decode(t, b)
				if img.Bounds().Dx() != size || img.Bounds().Dy() != size {
					t.Errorf("%q at %d is %v", m, size, img.Bounds())
				}
				if _, _, _, a := img.At(0, 0).RGBA(); size >= 16 && a != 0 {
					t.Errorf("%q at %d has a filled corner", m, size)
				}
			}
		}
	}
}

func TestTemplatesAreBlack(t *testing.T) {
	for _, m := range moods {
		img := decode(t, icon.Template(m, 44))
		ink := false
		for y := range 44 {
			for x := range 44 {
				r, g, b, a := img.At(x, y).RGBA()
				if r+g+b != 0 {
					t.Fatalf("%q has a colour at %d,%d", m, x, y)
				}
				ink = ink || a == 0xffff
			}
		}
		if !ink {
			t.Errorf("%q is empty", m)
		}
	}
}

func TestTheBundlesIconHoldsEachSize(t *testing.T) {
	b := icon.ICNS()
	if string(b[:4]) != "icns" || int(binary.BigEndian.Uint32(b[4:])) != len(b) {
		t.Fatalf("head %q, %d of %d bytes", b[:4], binary.BigEndian.Uint32(b[4:]), len(b))
	}
	var sizes []int
	for rest := b[8:]; len(rest) > 0; {
		n := binary.BigEndian.Uint32(rest[4:])
		sizes = append(sizes, decode(t, rest[8:n]).Bounds().Dx())
		rest = rest[n:]
	}
	if !slices.Equal(sizes, []int{16, 32, 128, 256, 512}) {
		t.Errorf("sizes %d", sizes)
	}
}
