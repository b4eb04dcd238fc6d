package text

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "garage-mac", "garage-mac"},
		{"colours of a log", "\x1b[31;1mred\x1b[0m", "red"},
		{"a title stays readable and harmless", "a\x1b]0;title\x07b", "a]0;titleb"},
		{"clipboard", "\x1b]52;c;ZXZpbA==\x1b\\", "]52;c;ZXZpbA==\\"},
		{"eight-bit introducer", "a\u009b31mb\u009d0;x\u009c", "ab0;x"},
		{"lines and tabs", "a\r\nb\tc\u2028d", "a b c d"},
		{"backspace, null, delete", "a\x08\x00\x7fb", "ab"},
		{"turned writing", "exe.\u202egnp\u2066x", "exe.gnpx"},
		{"invisible", "a\u200b\ufeff\u00adb", "ab"},
		{"no UTF-8", "a\xffb\x9b", "a\ufffdb\ufffd"},
		{"family stays one cluster", "👨‍👩‍👧", "👨‍👩‍👧"},
		{"a heap of marks", "e" + strings.Repeat("\u0301", 50) + "f", "e" + strings.Repeat("\u0301", maxMarks) + "f"},
		{"wide", "東京", "東京"},
	} {
		if got := Clean(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCleanedTextCannotSteer tries any string: no control character is left, and cleaning again changes
// nothing.
func TestCleanedTextCannotSteer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching("[\x1b\\[\\]0-9;mKA-Zé\u009b\u202e\\x00-\\x20]*"),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		got := Clean(s)
		for _, r := range got {
			if unicode.IsControl(r) || (unicode.Is(unicode.Cf, r) && r != zeroWidthJoiner) {
				t.Fatalf("%q keeps %U", got, r)
			}
		}
		if again := Clean(got); again != got {
			t.Fatalf("cleaned twice: %q, then %q", got, again)
		}
		if n := Width(Left(got, 17)); n != 17 {
			t.Fatalf("Left makes %d cells of %q", n, got)
		}
		if n := Width(Right(got, 17)); n != 17 {
			t.Fatalf("Right makes %d cells of %q", n, got)
		}
		for _, l := range Wrap(Lines(s), 17) {
			if Width(l) > 17 {
				t.Fatalf("Wrap leaves %d cells: %q", Width(l), l)
			}
		}
	})
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		got, want string
	}{
		{Left("abc", 5), "abc  "}, {Left("abcdef", 4), "abc…"}, {Left("東京都", 5), "東京…"}, {Left("東京都", 4), "東… "},
		{Right("7", 3), "  7"}, {Cut("abc", 0), ""}, {Ends("left side", "right", 10), "lef… right"}, {Ends("a", "", 3), "a  "},
		{Block([]string{"a", "b", "c"}, 2, 2), "a \nb "}, {Block([]string{"a"}, 2, 2), "a \n  "},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestFormat(t *testing.T) {
	now := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { v := now.Add(-d); return &v }
	n := func(v int64) *int64 { return &v }
	f := func(v float64) *float64 { return &v }
	for _, c := range []struct{ got, want string }{
		{Ago(now, nil), "—"}, {Ago(now, &time.Time{}), "—"}, {Ago(now, at(12*time.Second)), "12 s ago"}, {Ago(now, at(-time.Minute)), "now"},
		{Ago(now, at(500*time.Millisecond)), "now"}, {Ago(now, at(150*time.Second)), "2 min ago"}, {Ago(now, at(47*time.Hour)), "47 h ago"}, {Ago(now, at(49*time.Hour)), "2 d ago"},
		{Bytes(nil), "—"}, {Bytes(n(0)), "0 B"}, {Bytes(n(1536)), "1.5 KiB"}, {Bytes(n(38 << 30)), "38 GiB"}, {Bytes(n(1<<63 - 1)), "8192 PiB"},
		{Share(n(23<<30+1<<29), n(64<<30)), "23.5/64 GiB"}, {Share(nil, n(64<<30)), "—/64 GiB"}, {Share(n(1<<30), nil), "1 GiB"}, {Share(nil, nil), "—"},
		{Number(nil), "—"}, {Number(f(0)), "0"}, {Number(f(57.05)), "57"}, {Number(f(31.44)), "31.4"}, {Number(f(214.6)), "215"}, {Number(f(99.97)), "100"},
		{Count(1, "row", "rows"), "1 row"}, {Count(0, "row", "rows"), "0 rows"}, {Or(""), "—"}, {Or("x"), "x"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
