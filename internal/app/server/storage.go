package server

import (
	"context"
	"time"

	"stackyard/internal/platform/db"
)

// clockTimeout limits the first read of the database's clock.
const clockTimeout = 10 * time.Second

// agreedClock returns the clock that replicas share.
func agreedClock(p Parts) (*db.Clock, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clockTimeout)
	defer cancel()
	return p.DB.NewClock(ctx, p.Clock, p.DatabaseClock)
}

// openResults opens the database of test results.
func openResults(d *db.DB) (*db.DB, error) {
	ctx, cancel := context.WithTimeout(context.Background(), resultsTimeout)
	defer cancel()
	return d.Results(ctx)
}

// resultsTimeout bounds opening and migrating the database of test results.
const resultsTimeout = time.Minute
