// Package icon draws the pictures of the app: the moon in the menu bar, with a mark for the machine's
// mood, as PNG. They are drawn, not stored, so each size is sharp. It knows moods and nothing else.
package icon

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"

	"interlock.sh/tray"
)

// fine is how many samples a pixel has in each direction.
const fine = 4

// shape says the colour at a point of the unit square; transparent for outside.
type shape func(x, y float64) color.NRGBA

// The colours. The disc keeps the moon readable on light and on dark panels.
var (
	night = color.NRGBA{0x26, 0x2f, 0x4f, 0xff}
	rim   = color.NRGBA{0x6f, 0x7c, 0xb0, 0xff}
	moon  = color.NRGBA{0xff, 0xe0, 0x9a, 0xff}
	dim   = color.NRGBA{0xa9, 0xb0, 0xc6, 0xff}
	good  = color.NRGBA{0x4f, 0xc9, 0x7a, 0xff}
	bad   = color.NRGBA{0xf0, 0x5d, 0x4e, 0xff}
	going = color.NRGBA{0x5a, 0xb2, 0xf5, 0xff}
)

// PNG is the picture of a mood, size pixels wide and high.
func PNG(mood tray.Mood, size int) []byte { return draw(size, picture(mood)) }

// Template is the picture for a bar that paints it itself: black where something is. The mood is in the
// shape: a full moon works, a crescent rests, a gap with a dot needs attention.
func Template(mood tray.Mood, size int) []byte {
	return draw(size, func(x, y float64) color.NRGBA {
		ink := crescent(x, y, 0.44)
		if mood == tray.Working {
			ink = within(x, y, 0.5, 0.5, 0.40)
		}
		if mood == tray.Trouble {
			ink = ink && !within(x, y, 0.76, 0.76, 0.28) || within(x, y, 0.76, 0.76, 0.2)
		}
		if ink {
			return color.NRGBA{A: 0xff}
		}
		return color.NRGBA{}
	})
}

func picture(mood tray.Mood) shape {
	mark := map[tray.Mood]color.NRGBA{tray.Working: good, tray.Trouble: bad, tray.Coming: going}[mood]
	face := moon
	if mood == tray.Resting || mood == tray.Idle {
		face = dim
	}
	return func(x, y float64) color.NRGBA {
		switch {
		case mark.A > 0 && within(x, y, 0.78, 0.78, 0.19):
			return mark
		case mark.A > 0 && within(x, y, 0.78, 0.78, 0.25):
			return color.NRGBA{} // a gap, so that the mark stands out
		case crescent(x, y, 0.33):
			return face
		case within(x, y, 0.5, 0.5, 0.455):
			return night
		case within(x, y, 0.5, 0.5, 0.5):
			return rim
		}
		return color.NRGBA{}
	}
}

func within(x, y, cx, cy, r float64) bool { return math.Hypot(x-cx, y-cy) <= r }

// crescent is a moon of radius r in the middle, bitten from the upper right.
func crescent(x, y, r float64) bool {
	return within(x, y, 0.5, 0.5, r) && !within(x, y, 0.5+r*0.45, 0.5-r*0.35, r*0.85)
}

// draw samples a shape. Colours are averaged by what they cover, so that edges have no dark seam.
func draw(size int, at shape) []byte {
	img := image.NewNRGBA(image.Rect(0, 0, size, size))
	step := 1 / float64(size*fine)
	for py := range size {
		for px := range size {
			var r, g, b, a int
			for i := range fine * fine {
				x := (float64(px*fine+i%fine) + 0.5) * step
				y := (float64(py*fine+i/fine) + 0.5) * step
				if c := at(x, y); c.A > 0 {
					r, g, b, a = r+int(c.R), g+int(c.G), b+int(c.B), a+1
				}
			}
			if a > 0 {
				img.SetNRGBA(px, py, color.NRGBA{uint8(r / a), uint8(g / a), uint8(b / a), uint8(a * 255 / (fine * fine))})
			}
		}
	}
	var out bytes.Buffer
	_ = png.Encode(&out, img) // a buffer takes everything, and the picture has a size
	return out.Bytes()
}
