package server

import "testing"

func TestGCPercent_LeavesSmallServersRoomAndLargeOnesLittle(t *testing.T) {
	for _, c := range []struct {
		used uint64
		want int
	}{{0, maxGCPercent}, {4 << 20, maxGCPercent}, {36 << 20, 125}, {144 << 20, 50}, {4 << 30, 25}} {
		if got := gcPercent(c.used); got != c.want {
			t.Errorf("%d MiB: %d%%, want %d%%", c.used>>20, got, c.want)
		}
	}
}
