package db

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// sessionSettings bound what a PostgreSQL session may take, so that a replica that hangs, or whose machine
// vanished, does not keep its locks. A setting that the database URL has too is left as the URL has it.
var sessionSettings = []struct{ name, value string }{
	{"lock_timeout", "15s"},                        // waiting for one lock
	{"statement_timeout", "60s"},                   // one statement, its waits included
	{"idle_in_transaction_session_timeout", "30s"}, // our transactions never wait for a client
	{"tcp_keepalives_idle", "30"},                  // seconds
	{"tcp_keepalives_interval", "10"},
	{"tcp_keepalives_count", "3"},
	{"tcp_user_timeout", "60s"},
}

// keepAlive is how this end finds out that the server has vanished.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// boundSession has each connection of a configuration begin with sessionSettings. They are set by statements
// because connection poolers such as PgBouncer refuse most startup parameters.
func boundSession(config *pgx.ConnConfig) {
	var statements []string
	for _, s := range sessionSettings {
		if _, given := config.RuntimeParams[s.name]; !given {
			statements = append(statements, `SET `+s.name+` = '`+s.value+`'`)
		}
	}
	config.AfterConnect = runEach(statements)
	dialer := &net.Dialer{KeepAliveConfig: keepAlive}
	config.DialFunc = dialer.DialContext
}

// patientSession has each connection of a configuration wait for as long as it takes: migrations rewrite
// tables, and wait for each other.
func patientSession(config *pgx.ConnConfig) {
	config.AfterConnect = runEach([]string{`SET lock_timeout = 0`, `SET statement_timeout = 0`, `SET idle_in_transaction_session_timeout = 0`})
}

func runEach(statements []string) func(context.Context, *pgconn.PgConn) error {
	text := strings.Join(statements, "; ")
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, text).Close()
	}
}
