package queuemetrics

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBuckets_AreContiguous(t *testing.T) {
	last := -1
	for ms := int64(0); ms < 1<<14; ms++ {
		bucket := bucketOf(time.Duration(ms) * time.Millisecond)
		if bucket != last && bucket != last+1 {
			t.Fatalf("%d ms is in bucket %d, the one before in %d", ms, bucket, last)
		}
		last = bucket
	}
	if most := bucketOf(math.MaxInt64); most != maxBuckets-1 {
		t.Errorf("the longest wait is in bucket %d, want %d", most, maxBuckets-1)
	}
	if least := bucketOf(-time.Hour); least != 0 {
		t.Errorf("a negative wait is in bucket %d, want 0", least)
	}
}

func TestProperty_PercentilesAreNearTheExactOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waits := rapid.SliceOfN(rapid.Int64Range(0, 1<<maxBits-1), 1, 300).Draw(t, "milliseconds")
		var h histogram
		for _, ms := range waits {
			h.add(time.Duration(ms)*time.Millisecond, 1)
		}
		slices.Sort(waits)
		for _, p := range []int64{1, 50, 75, 90, 95, 99, 100} {
			rank := int(math.Ceil(float64(len(waits)) * float64(p) / 100))
			exact := float64(waits[max(rank, 1)-1])
			got, ok := h.percentile(p)
			if ms := float64(got) / 1e6; !ok || math.Abs(ms-exact) > exact/16+1 {
				t.Fatalf("p%d of %v is %v ms, want about %v", p, waits, ms, exact)
			}
		}
	})
}

func TestProperty_MergingAndStoringKeepEveryCount(t *testing.T) {
	waits := rapid.SliceOf(rapid.Int64Range(-10, 1<<40))
	rapid.Check(t, func(t *rapid.T) {
		var all histogram
		parts := make([]histogram, 3)
		for i := range parts {
			for _, ms := range waits.Draw(t, "milliseconds") {
				parts[i].add(time.Duration(ms)*time.Millisecond, 1)
				all.add(time.Duration(ms)*time.Millisecond, 1)
			}
		}
		var merged histogram
		for i := range parts {
			text, err := json.Marshal(&parts[i])
			if err != nil {
				t.Fatal(err)
			}
			var stored histogram
			if err := json.Unmarshal(text, &stored); err != nil {
				t.Fatal(err)
			}
			merged.merge(&stored)
		}
		if !slices.Equal(merged.counts, all.counts) {
			t.Fatalf("merged %v, want %v", merged.counts, all.counts)
		}
	})
}

func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{`[]`, `[3,1,17,4]`, `[-1,1]`, `[100000,1]`, `[1]`, `{}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var h histogram
		if err := h.UnmarshalJSON(text); err == nil && len(h.counts) > maxBuckets {
			t.Errorf("%q has %d buckets", text, len(h.counts))
		}
	})
}
