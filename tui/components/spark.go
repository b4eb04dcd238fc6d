package components

import "strings"

var bars = []rune("▁▂▃▄▅▆▇█")

// gap is a moment without a figure: not the same as a figure of nothing.
const gap = '·'

// Spark draws the newest w figures as a line of bars, oldest first. The highest bar is the top, or
// the largest figure when top is 0. A nil figure is a gap.
func Spark(figures []*float64, w int, top float64) string {
	if len(figures) > w {
		figures = figures[len(figures)-max(w, 0):]
	}
	if top <= 0 {
		for _, f := range figures {
			if f != nil {
				top = max(top, *f)
			}
		}
	}
	var b strings.Builder
	for _, f := range figures {
		switch {
		case f == nil:
			b.WriteRune(gap)
		case top <= 0 || *f <= 0:
			b.WriteRune(bars[0])
		default:
			b.WriteRune(bars[min(int(*f/top*float64(len(bars)-1)+0.5), len(bars)-1)])
		}
	}
	return b.String()
}
