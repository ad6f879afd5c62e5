package server

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The garbage collector runs when the heap has grown by gcHeadroom and a part of what was in use. A small server then
// collects rarely, and a large one, with many idle agents, does not need twice the memory that it uses.
const (
	gcHeadroom = 36 << 20
	gcPart     = 4 // a fourth
	// maxGCPercent bounds the growth of a server that uses little.
	maxGCPercent = 400
)

// tuneGC adapts the garbage collector after each collection, unless the operator has set it.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		afterGC()
	}
}

// afterGC adapts the garbage collector now and after the next collection.
func afterGC() {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}}
	metrics.Read(samples)
	used := samples[0].Value.Uint64() + samples[1].Value.Uint64()
	debug.SetGCPercent(gcPercent(used))
	// The finalizer of garbage runs after the next collection.
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) { afterGC() })
}

// gcPercent returns by how many percent the heap may grow when a number of bytes is in use.
func gcPercent(used uint64) int {
	used = max(used, 1)
	return int(min((gcHeadroom+used/gcPart)*100/used, maxGCPercent))
}
