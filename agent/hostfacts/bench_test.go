package hostfacts

import "testing"

// BenchmarkLocalZone is what each look at the hours costs.
func BenchmarkLocalZone(b *testing.B) {
	for b.Loop() {
		LocalZone()
	}
}
