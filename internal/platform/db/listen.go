package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// channel is what all processes of an installation listen on.
	channel = "stackyard"
	// MaxMessage is the length in bytes of the longest message that [DB.Notify] takes.
	MaxMessage = 7999
	// quietLimit is how long a listener hears nothing before it asks whether the server is there.
	quietLimit = time.Minute
)

const notifyText = `SELECT pg_notify('` + channel + `', message) FROM unnest($1::text[]) AS message`

// Shared reports whether other processes may serve from the same database at the same time.
func (d *DB) Shared() bool { return d.name == PostgreSQL }

// Notify sends messages to every process that listens on the same database, this one included. On
// SQLite, which one process serves, it does nothing.
func (d *DB) Notify(ctx context.Context, messages ...string) error {
	if d.Shared() {
		d.statements.Add(1)
		if listen := d.listener.Load(); listen != nil {
			(*listen)(notifyText, nil)
		}
	}
	return away(ctx, d.notify(ctx, messages))
}

// Listen calls heard with each message of [DB.Notify], on a connection of its own beside the pool,
// until ctx is done or the connection breaks, and returns why. It calls ready once it hears
// everything that is sent from then on. On SQLite it hears nothing.
func (d *DB) Listen(ctx context.Context, ready func(), heard func(message string)) error {
	return away(ctx, d.listen(ctx, ready, heard))
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

func (e *postgresEngine) listen(ctx context.Context, ready func(), heard func(string)) error {
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
		message, err := hear(ctx, conn)
		switch {
		case err == nil:
			heard(message)
		case ctx.Err() != nil || conn.IsClosed():
			return err
		default: // it has been quiet; a network that drops packets breaks no connection that only listens
			if err := ask(ctx, conn); err != nil {
				return err
			}
		}
	}
}

// hear waits for one message, but not for longer than quietLimit.
func hear(ctx context.Context, conn *pgx.Conn) (message string, err error) {
	ctx, cancel := context.WithTimeout(ctx, quietLimit)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	return n.Payload, nil
}

// ask returns nil when the server answers.
func ask(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	return conn.Ping(ctx)
}
