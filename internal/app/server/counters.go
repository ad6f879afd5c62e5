package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
)

// storageCounters count what makes writes slow.
func storageCounters(d *db.DB, blobs *blob.Store) []prometheus.Collector {
	counter := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		counter("stackyard_database_statements_total", "Statements run.", d.Statements),
		counter("stackyard_database_transactions_total", "Transactions committed. On SQLite many writes share one.", d.Commits),
		counter("stackyard_database_batched_writes_total", "Writes committed by the writer of SQLite, several per transaction if they came together.", d.BatchedWrites),
		counter("stackyard_file_syncs_total", "Files and folders of logs and artifacts made durable.", blobs.Syncs),
	}
}
