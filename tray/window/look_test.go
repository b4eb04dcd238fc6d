//go:build linux || cgo

package window

import (
	"image/color"
	"math"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/theme"
)

// What is read stands out from its ground as the accessibility guidelines want it of text (4.5), and what is
// only a part of a control as they want it of those (3).
func TestContrast(t *testing.T) {
	text := map[fyne.ThemeColorName][]fyne.ThemeColorName{
		theme.ColorNameForeground:          {theme.ColorNameBackground, colorPanel, theme.ColorNameButton, theme.ColorNameInputBackground},
		theme.ColorNameDisabled:            {theme.ColorNameBackground, colorPanel, theme.ColorNameDisabledButton}, // also of text that explains
		theme.ColorNamePlaceHolder:         {theme.ColorNameInputBackground},
		theme.ColorNameError:               {theme.ColorNameBackground, colorPanel},
		theme.ColorNameSuccess:             {theme.ColorNameBackground, colorPanel},
		theme.ColorNameWarning:             {theme.ColorNameBackground, colorPanel},
		theme.ColorNameForegroundOnPrimary: {theme.ColorNamePrimary},
		theme.ColorNameForegroundOnError:   {theme.ColorNameError},
	}
	parts := map[fyne.ThemeColorName][]fyne.ThemeColorName{theme.ColorNamePrimary: {theme.ColorNameBackground, colorPanel}}
	for variant, name := range map[fyne.ThemeVariant]string{theme.VariantLight: "light", theme.VariantDark: "dark"} {
		for least, pairs := range map[float64]map[fyne.ThemeColorName][]fyne.ThemeColorName{4.5: text, 3: parts} {
			for on, grounds := range pairs {
				for _, ground := range grounds {
					if got := contrast(Theme().Color(on, variant), Theme().Color(ground, variant)); got < least {
						t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", name, on, ground, got, least)
					}
				}
			}
		}
	}
}

// contrast is the ratio of WCAG 2.
func contrast(a, b color.Color) float64 {
	x, y := luminance(a), luminance(b)
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}

func luminance(c color.Color) float64 {
	r, g, b, _ := c.RGBA()
	part := func(v uint32) float64 {
		f := float64(v) / 0xffff
		if f > 0.04045 {
			return math.Pow((f+0.055)/1.055, 2.4)
		}
		return f / 12.92
	}
	return 0.2126*part(r) + 0.7152*part(g) + 0.0722*part(b)
}
