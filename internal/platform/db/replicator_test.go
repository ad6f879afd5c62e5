package db_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// A replicator such as Litestream copies the write-ahead log from beside the server. It keeps a read transaction open, so
// that the log does not start over before it has copied it, and the server goes on writing.
func TestSQLite_LetsAReplicatorReadItsLog(t *testing.T) {
	url := dbtest.URL(t, db.SQLite)
	path := strings.TrimPrefix(url, "sqlite:")
	d := dbtest.Open(t, url)
	// More than 4,000 pages, after which SQLite copies the log into the database.
	fill := func(round string) {
		t.Helper()
		for part := range 2 {
			err := d.Write(t.Context(), func(q *db.Q) error {
				for i := range 2500 {
					if _, err := q.Exec(`INSERT INTO installation (name, value) VALUES ($1, $2)`, fmt.Sprint(round, part, i), strings.Repeat("x", 4000)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	salt := func() []byte {
		t.Helper()
		header := make([]byte, 24)
		file, err := os.Open(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.ReadAt(header, 0); err != nil {
			t.Fatal(err)
		}
		return header[16:] // it changes when the log starts over
	}
	fill("a")
	before := salt()
	fill("b")
	if bytes.Equal(before, salt()) {
		t.Error("the log does not start over without a replicator")
	}
	replicator, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer replicator.Close()
	replicator.SetMaxOpenConns(1)
	var mode string
	if err := replicator.QueryRow(`PRAGMA journal_mode`).Scan(&mode); err != nil || mode != "wal" {
		t.Fatalf("journal mode %s, %v", mode, err)
	}
	fill("c")
	tx, err := replicator.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM installation`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	fill("d")
	held := salt()
	fill("e")
	if !bytes.Equal(held, salt()) {
		t.Error("the log started over although a replicator reads it")
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	fill("f")
}
