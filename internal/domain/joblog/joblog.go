// Package joblog keeps what jobs print: it takes chunks from agents, lets people read the log while it
// grows and afterwards, and deletes it.
//
// A log is bytes at offsets. Chunks arrive in any order, and some twice, so a chunk is a piece that is
// put where it belongs (append.go). Pieces are in the place for blobs before they are acknowledged, and
// nothing is written to the database for them; so any replica takes and shows any log, and none
// remembers anything about it. When the job has ended, a task seals the log (seal.go): all pieces become
// one compressed object with an index, of which any range is read without the rest (archive.go). Chunks
// that come late make it be sealed again.
//
// Deleting the log of a running job removes what was written so far: the log goes on as a new generation,
// whose bytes are counted from there and have a place of their own (service.go).
//
// What people read is the content (layout.go): the bytes in their order. While the job runs it ends where
// the first byte is missing. Once the job has ended, what is missing is marked, because it got lost or
// because the log was too large: then its beginning and its end are kept. Sealing does not change the
// content, so readers go on across it (log.go).
//
// The REST API shows the content as JSON, as text and as HTML (http.go), and streams it as it grows
// (tail.go).
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

// Job says whose log it is.
type Job struct {
	OrganizationID string
	PipelineID     string
	BuildID        string
	ID             string
}

// prefix is what the keys of all bytes of the log begin with.
func (j Job) prefix() string {
	return builds.Prefix(j.OrganizationID, j.PipelineID, j.BuildID) + "/logs/" + j.ID
}

// pieces is the key that a generation of the log grows under.
func (j Job) pieces(generation int64) string {
	if generation == 0 {
		return j.prefix() + "/pieces"
	}
	return fmt.Sprintf("%s/pieces-%d", j.prefix(), generation)
}

// topic is what the bus calls a change of the log.
func (j Job) topic() string { return Topic(j.ID) }

// Topic is what the bus calls a change of the log of a job, or its end.
func Topic(jobID string) string { return "log:" + jobID }

// limits say how much of a log is kept: so many bytes from its beginning, and of what follows so many
// from its end.
type limits struct{ head, tail int64 }

// defaultLimits keep a GiB.
var defaultLimits = limits{head: 960 << 20, tail: 64 << 20}

// Service is what can be done to logs.
type Service struct {
	db     *db.DB
	blobs  *blob.Store
	bus    *bus.Bus
	builds *builds.Service
	public core.PublicURL
	clock  core.Clock
	log    *slog.Logger
	limits limits

	sealing  chan struct{} // holds a token for each log that is being sealed
	draining chan struct{} // closed when the server is about to stop
}

// sealsAtOnce bounds how many logs a process seals at the same time.
const sealsAtOnce = 2

// New returns the service of the logs in a database and a place for blobs.
func New(d *db.DB, blobs *blob.Store, events *bus.Bus, b *builds.Service, public core.PublicURL, clock core.Clock, log *slog.Logger) *Service {
	return &Service{
		db: d, blobs: blobs, bus: events, builds: b, public: public, clock: clock, log: log,
		limits:   defaultLimits,
		sealing:  make(chan struct{}, sealsAtOnce),
		draining: make(chan struct{}),
	}
}

// Drain has streams end, from now on, so that their readers come back to another replica.
func (s *Service) Drain() { close(s.draining) }
