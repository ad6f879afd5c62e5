package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// channel is the notification channel of all processes of an installation.
	channel = "stackyard"
	// MaxMessage is the maximum length in bytes of a message of [DB.Notify].
	MaxMessage = 7999
	// idleLimit is how long a listener gets no message before it checks that the server is reachable.
	idleLimit = time.Minute
)

const notifyText = `SELECT pg_notify('` + channel + `', message) FROM unnest($1::text[]) AS message`

// Shared reports whether other processes can serve from the same database at the same time.
func (d *DB) Shared() bool { return d.name == PostgreSQL }

// Process returns the name of this process that all of its connections have at the end of their application_name, after
// " #". On SQLite, which one process serves, it is empty.
func (d *DB) Process() string {
	if e, ok := d.engine.(*postgresEngine); ok {
		return e.process
	}
	return ""
}

// Notify sends messages to every process that listens on the same database, this one included. On SQLite, which
// one process serves, it does nothing.
func (d *DB) Notify(ctx context.Context, messages ...string) error {
	if d.Shared() {
		d.statements.Add(1)
		if listen := d.onStatement.Load(); listen != nil {
			(*listen)(notifyText, nil)
		}
	}
	return asUnavailable(ctx, d.notify(ctx, messages))
}

// Listen calls receive with each message of [DB.Notify], on its own connection outside of the pool, until ctx
// ends or the connection breaks, and returns why. It calls ready once it gets every message sent from then on.
// On SQLite it receives nothing.
func (d *DB) Listen(ctx context.Context, ready func(), receive func(message string)) error {
	return asUnavailable(ctx, d.listen(ctx, ready, receive))
}

func (e *sqliteEngine) notify(context.Context, []string) error { return nil }

func (e *sqliteEngine) listen(ctx context.Context, ready func(), _ func(string)) error {
	ready()
	<-ctx.Done()
	return ctx.Err()
}

func (e *postgresEngine) notify(ctx context.Context, messages []string) error {
	_, err := e.pool.Exec(ctx, notifyText, messages)
	return err
}

func (e *postgresEngine) listen(ctx context.Context, ready func(), receive func(string)) error {
	conn, err := pgx.ConnectConfig(ctx, e.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return err
	}
	ready()
	for {
		message, err := waitForMessage(ctx, conn)
		switch {
		case err == nil:
			receive(message)
		case ctx.Err() != nil || conn.IsClosed():
			return err
		default: // no message for a while; a network that drops packets does not close a connection that only listens
			if err := pingServer(ctx, conn); err != nil {
				return err
			}
		}
	}
}

// waitForMessage waits for one message, but not longer than idleLimit.
func waitForMessage(ctx context.Context, conn *pgx.Conn) (message string, err error) {
	ctx, cancel := context.WithTimeout(ctx, idleLimit)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	return n.Payload, nil
}

// pingServer returns nil when the server answers.
func pingServer(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	return conn.Ping(ctx)
}
