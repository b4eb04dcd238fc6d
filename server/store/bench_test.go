package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkWrite is one durable insert for each operation, from 1, 16 and 64 goroutines at once.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			db := open(b, b.TempDir(), nil)
			var next atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for id := next.Add(1); id <= int64(b.N); id = next.Add(1) {
						if err := db.Write(context.Background(), LaneAdmit, insert(id)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

// BenchmarkRead is one row by its key through the pool of readers.
func BenchmarkRead(b *testing.B) {
	db := open(b, b.TempDir(), nil)
	mustWrite(b, db, insert(1))
	b.ReportAllocs()
	for b.Loop() {
		var name string
		if err := db.QueryRow(context.Background(), "SELECT name FROM items WHERE id = $1", 1).Scan(&name); err != nil {
			b.Fatal(err)
		}
	}
}
