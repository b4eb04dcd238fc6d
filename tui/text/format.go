package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Unknown stands for a figure that nobody reported. It is never shown as 0.
const Unknown = "—"

// Ago says how long before now t was; Unknown for nil. A time ahead of now, which a clock that is a
// little slow makes, is "now".
func Ago(now time.Time, t *time.Time) string {
	if t == nil || t.IsZero() {
		return Unknown
	}
	d := now.Sub(*t)
	if d < time.Second {
		return "now"
	}
	return Duration(d) + " ago"
}

// Duration is d in one unit, as people say it: "12 s", "3 min", "2 h", "5 d".
func Duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.FormatInt(int64(max(d, 0)/time.Second), 10) + " s"
	case d < time.Hour:
		return strconv.FormatInt(int64(d/time.Minute), 10) + " min"
	case d < 48*time.Hour:
		return strconv.FormatInt(int64(d/time.Hour), 10) + " h"
	}
	return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + " d"
}

var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}

// Bytes is a size in the unit that keeps it short: "512 B", "23.1 GiB"; Unknown for nil.
func Bytes(n *int64) string {
	if n == nil {
		return Unknown
	}
	v, u := scale(*n, 0)
	return v + " " + units[u]
}

// Share is a part of a whole in the whole's unit: "23.1/64 GiB". A missing part shows as Unknown, a
// missing whole leaves the part alone.
func Share(part, whole *int64) string {
	switch {
	case whole == nil:
		return Bytes(part)
	case part == nil:
		return Unknown + "/" + Bytes(whole)
	}
	w, u := scale(*whole, 0)
	p, _ := scaleTo(*part, u)
	return p + "/" + w + " " + units[u]
}

// Number is a measured figure with one digit behind the point, or none from 100 on; Unknown for nil.
func Number(v *float64) string {
	if v == nil {
		return Unknown
	}
	return short(*v)
}

// Count is "1 machine", "3 machines".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Or is s, or Unknown when it is empty.
func Or(s string) string {
	if s == "" {
		return Unknown
	}
	return s
}

func scale(n int64, from int) (string, int) {
	v, u := float64(n), from
	for v >= 1024 && u < len(units)-1 {
		v /= 1024
		u++
	}
	return short(v), u
}

func scaleTo(n int64, unit int) (string, int) {
	v := float64(n)
	for range unit {
		v /= 1024
	}
	return short(v), unit
}

func short(v float64) string {
	if v >= 99.95 || v <= -99.95 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}
