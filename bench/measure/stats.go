package measure

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// quantile is the nearest-rank quantile of a sample that is not empty.
func quantile[T cmp.Ordered](sample []T, q float64) T {
	sorted := slices.Sorted(slices.Values(sample))
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

func median[T cmp.Ordered](sample []T) T { return quantile(sample, 0.5) }

// of maps a sample.
func of[T, U any](sample []T, f func(T) U) []U {
	out := make([]U, len(sample))
	for i, v := range sample {
		out[i] = f(v)
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
