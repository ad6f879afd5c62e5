package db_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// BenchmarkDurableWrites measures durable transactions per second, each with one small insert: by a bare loop
// over the driver, by one caller of Write at a time, which leaves nothing to commit together, and by 64
// callers. The factor compares with the bare loop of the same run.
func BenchmarkDurableWrites(b *testing.B) {
	const insert = `INSERT INTO installation (name, value) VALUES ($1, $2)`

	b.Run("sqlite", func(b *testing.B) {
		file := filepath.Join(b.TempDir(), "stackyard.db") // on a disk, unlike those of dbtest
		d := dbtest.Open(b, file)
		if err := d.Migrate(b.Context()); err != nil {
			b.Fatal(err)
		}
		bare, err := sql.Open("sqlite", "file:"+file+"?_pragma=synchronous(FULL)")
		if err != nil {
			b.Fatal(err)
		}
		defer bare.Close()
		statement, err := bare.Prepare(insert)
		if err != nil {
			b.Fatal(err)
		}
		compare(b, d, insert, func(ctx context.Context, args ...any) error {
			_, err := statement.ExecContext(ctx, args...)
			return err
		})
	})

	b.Run("postgres", func(b *testing.B) {
		server, err := dbtest.StartServer(nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(server.Stop)
		url := server.Database(b)
		bare, err := pgx.Connect(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		defer bare.Close(context.Background())
		compare(b, dbtest.Open(b, url), insert, func(ctx context.Context, args ...any) error {
			_, err := bare.Exec(ctx, insert, args...)
			return err
		})
	})
}

func compare(b *testing.B, d *db.DB, insert string, bare func(context.Context, ...any) error) {
	var bareRate float64
	report := func(b *testing.B) {
		rate := float64(b.N) / b.Elapsed().Seconds()
		if bareRate == 0 {
			bareRate = rate
		}
		b.ReportMetric(rate, "tx/s")
		b.ReportMetric(rate/bareRate, "rate/bare-insert")
		b.ReportMetric(0, "ns/op")
	}
	write := func() error {
		return d.Write(context.Background(), execute(insert, core.NewID(), "a value of a usual size"))
	}
	b.Run("bare", func(b *testing.B) {
		bareRate = 0
		for b.Loop() {
			if err := bare(context.Background(), core.NewID(), "a value of a usual size"); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			if err := write(); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
	b.Run("together", func(b *testing.B) {
		b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
		b.RunParallel(func(more *testing.PB) {
			for more.Next() {
				if err := write(); err != nil {
					b.Error(err)
					return
				}
			}
		})
		report(b)
	})
}
