// Package joblog stores what jobs print: it receives chunks from agents, serves the log while it grows and
// afterwards, and deletes it.
//
// A log is bytes at offsets. Chunks arrive in any order and sometimes twice; each is stored as a piece at its
// offset (append.go). A piece is durable before it is acknowledged, so any replica can receive and serve any log
// without state of its own. The beginning of a log is in the database, and most logs have no more (small.go). The
// rest spills into the blob store, where nothing is written to the database for a piece. When the job of such a
// log has ended, a task seals the log (seal.go): all pieces become one compressed object with an index, from which
// any range is read without the rest (archive.go). Late chunks cause the log to be sealed again.
//
// Deleting the log of a running job removes what was written so far. The log continues as a new generation,
// with offsets from there and its own keys (service.go).
//
// Readers see the content (layout.go): the bytes in order. While the job runs, the content ends at the first
// missing byte. After the job has ended, missing bytes are marked; they were lost, or the log was too large and
// only its beginning and end are stored. Sealing does not change the content, so readers continue across it
// (log.go).
//
// Pages show any lines of a log at the same cost (rows.go): the index of an archive counts lines, and of other logs
// the process remembers where lines are, and what sections they form (scan.go).
//
// The REST API serves the content as JSON, text and HTML (http.go) and streams it as it grows (tail.go).
package joblog

import (
	"fmt"
	"log/slog"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Job identifies the log of a job.
type Job struct {
	OrganizationID string
	PipelineID     string
	BuildID        string
	ID             string
}

// prefix returns the common prefix of the keys of the log's bytes.
func (j Job) prefix() string {
	return builds.Prefix(j.OrganizationID, j.PipelineID, j.BuildID) + "/logs/" + j.ID
}

// pieces returns the key of the pieces of a generation.
func (j Job) pieces(generation int64) string {
	if generation == 0 {
		return j.prefix() + "/pieces"
	}
	return fmt.Sprintf("%s/pieces-%d", j.prefix(), generation)
}

// topic returns the bus topic of changes of the log.
func (j Job) topic() string { return Topic(j.ID) }

// Topic returns the bus topic of changes of a job's log, including its end.
func Topic(jobID string) string { return "log:" + jobID }

// limits defines how much of a log is stored: head bytes from its beginning, of these the first small bytes in the
// database, and tail bytes from the end of the rest.
type limits struct{ head, tail, small int64 }

// defaultLimits store one GiB.
var defaultLimits = limits{head: 960 << 20, tail: 64 << 20, small: smallLog}

// Service receives, serves, seals and deletes logs.
type Service struct {
	db     *db.DB
	blobs  *blob.Store
	bus    *bus.Bus
	builds *builds.Reader
	public core.PublicURL
	clock  core.Clock
	log    *slog.Logger
	limits limits

	sealing  chan struct{} // contains a token for each log being sealed
	draining chan struct{} // closed when the server is about to stop
	scans    scans         // what is known of the lines of logs
}

// maxConcurrentSeals limits how many logs a process seals at the same time.
const maxConcurrentSeals = 2

// New returns a Service for the logs in a database and a blob store.
func New(d *db.DB, blobs *blob.Store, events *bus.Bus, b *builds.Reader, public core.PublicURL, clock core.Clock, log *slog.Logger) *Service {
	return &Service{
		db: d, blobs: blobs, bus: events, builds: b, public: public, clock: clock, log: log,
		limits:   defaultLimits,
		sealing:  make(chan struct{}, maxConcurrentSeals),
		draining: make(chan struct{}),
		scans:    newScans(),
	}
}

// Drain ends all streams, so that their readers reconnect to another replica.
func (s *Service) Drain() { close(s.draining) }
