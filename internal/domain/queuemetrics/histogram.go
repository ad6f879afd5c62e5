package queuemetrics

import (
	"encoding/json"
	"errors"
	"math/bits"
	"time"
)

// A histogram counts waits in milliseconds. Waits below subBuckets have a bucket each; above, each doubling is
// divided into subBuckets buckets of the same width. So a bucket is at most an eighth wider than its lower bound, and
// the middle of a bucket is at most 1/16 away from every wait in it.
type histogram struct {
	counts []int64 // by bucket; those that are missing at the end are 0

	waitingMax, runningMax int64 // the most jobs at the same time
}

const (
	subBits    = 3
	subBuckets = 1 << subBits
	// maxBits bounds a wait to 2^maxBits milliseconds, which is more than two years.
	maxBits    = 36
	maxBuckets = (maxBits - subBits + 1) * subBuckets
)

// bucketOf returns the bucket of a wait.
func bucketOf(wait time.Duration) int {
	ms := uint64(min(max(wait.Milliseconds(), 0), 1<<maxBits-1))
	if ms < subBuckets {
		return int(ms)
	}
	shift := bits.Len64(ms) - 1 - subBits
	return shift*subBuckets + int(ms>>shift)
}

// middle returns the middle of the waits in a bucket.
func middle(bucket int) time.Duration {
	if bucket < 2*subBuckets { // buckets of one millisecond
		return time.Duration(bucket) * time.Millisecond
	}
	shift := bucket/subBuckets - 1
	low := int64(bucket-shift*subBuckets) << shift
	return time.Duration(low)*time.Millisecond + time.Duration(int64(time.Millisecond)<<shift/2)
}

// add counts n waits of the same length.
func (h *histogram) add(wait time.Duration, n int64) { h.addTo(bucketOf(wait), n) }

func (h *histogram) addTo(bucket int, n int64) {
	if missing := bucket + 1 - len(h.counts); missing > 0 {
		h.counts = append(h.counts, make([]int64, missing)...)
	}
	h.counts[bucket] += n
}

// merge adds the counts of another histogram, and keeps the higher peaks.
func (h *histogram) merge(other *histogram) {
	for bucket, n := range other.counts {
		if n > 0 {
			h.addTo(bucket, n)
		}
	}
	h.peak(load{other.waitingMax, other.runningMax})
}

// jobs returns the number of waits.
func (h *histogram) jobs() (n int64) {
	for _, count := range h.counts {
		n += count
	}
	return n
}

// percentile returns the wait that p percent of all waits do not exceed, and false if there is none.
func (h *histogram) percentile(p int64) (time.Duration, bool) {
	total := h.jobs()
	rank := (total*p + 99) / 100 // the smallest number of waits that are p percent
	var seen int64
	for bucket, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			return middle(bucket), true
		}
	}
	return 0, false
}

// MarshalJSON writes the buckets that are not empty as a flat array of numbers and counts: [3,1,17,4].
func (h *histogram) MarshalJSON() ([]byte, error) {
	pairs := []int64{}
	for bucket, n := range h.counts {
		if n > 0 {
			pairs = append(pairs, int64(bucket), n)
		}
	}
	return json.Marshal(pairs)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *histogram) UnmarshalJSON(text []byte) error {
	var pairs []int64
	if err := json.Unmarshal(text, &pairs); err != nil {
		return err
	}
	h.counts = nil
	for ; len(pairs) >= 2; pairs = pairs[2:] {
		if pairs[0] < 0 || pairs[0] >= maxBuckets || pairs[1] < 0 {
			return errors.New("a histogram has a bucket that does not exist")
		}
		h.addTo(int(pairs[0]), pairs[1])
	}
	return nil
}
