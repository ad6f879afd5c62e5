package db

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// sessionSettings bound a PostgreSQL session, so that a replica that hangs, or whose machine is lost, does not
// keep its locks. A setting of the database URL takes precedence.
var sessionSettings = []struct{ name, value string }{
	{"lock_timeout", "15s"},                        // waiting for one lock
	{"statement_timeout", "60s"},                   // one statement, including its waits
	{"idle_in_transaction_session_timeout", "30s"}, // our transactions never wait for a client
	{"tcp_keepalives_idle", "30"},                  // seconds
	{"tcp_keepalives_interval", "10"},
	{"tcp_keepalives_count", "3"},
	{"tcp_user_timeout", "60s"},
}

// keepAlive detects that the server's machine is lost.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// applySessionSettings makes each connection of a configuration start with sessionSettings. It uses statements
// because connection poolers like PgBouncer refuse most startup parameters.
func applySessionSettings(config *pgx.ConnConfig) {
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

// removeTimeouts lets each connection of a configuration wait without limit: migrations rewrite tables, and
// wait for each other.
func removeTimeouts(config *pgx.ConnConfig) {
	config.AfterConnect = runEach([]string{`SET lock_timeout = 0`, `SET statement_timeout = 0`, `SET idle_in_transaction_session_timeout = 0`})
}

func runEach(statements []string) func(context.Context, *pgconn.PgConn) error {
	text := strings.Join(statements, "; ")
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, text).Close()
	}
}
