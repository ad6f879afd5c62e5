// Package hooks receives webhooks of source hosts and creates builds for them.
//
// A delivery is stored before it is answered: the endpoint checks the signature, writes one row and a task, and
// answers (receive.go, verify.go). The task reads the deliveries of a pipeline in the order in which they came
// (process.go). Package hookpayload parses them, [Decide] decides whether an event is built, and the build is created
// in the transaction that ends the delivery, so each event is built once whatever crashes. Deliveries are kept for a
// while with their outcome, so that people can see why something was not built (http.go).
package hooks

import (
	"log/slog"
	"time"

	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/hookpayload"
)

// State is what became of a delivery.
type State string

// The states. All but Pending are final.
const (
	Pending State = "pending" // waits to be processed
	Built   State = "built"   // at least one build was created
	Ignored State = "ignored" // nothing was built, as configured
	Failed  State = "failed"  // it could not be understood or built
)

// Values lists all states.
func (State) Values() []string {
	return []string{string(Pending), string(Built), string(Ignored), string(Failed)}
}

// A Delivery is a webhook that a source host sent to a pipeline.
type Delivery struct {
	Seq            int64 // orders the deliveries of a pipeline
	ID             string
	OrganizationID string
	PipelineID     string
	Host           hookpayload.Host
	Event          string // as the host calls it
	DeliveryID     string // that the host gave it; empty: none
	Digest         string // of a body that a signature protects; empty: none
	RedeliveryOf   string // the id of another; empty: it came from the host
	Headers        map[string]string
	Body           string
	State          State
	Reason         string // why nothing was built, or what else happened
	Builds         []BuildLink
	Attempts       int
	CreatedAt      time.Time
	ProcessedAt    time.Time // zero: pending
}

// A BuildLink is a build that a delivery created.
type BuildLink struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
}

// Service receives and processes deliveries.
type Service struct {
	db        *db.DB
	pipelines *pipelines.Service
	builds    *lifecycle.Service
	public    core.PublicURL
	clock     core.Clock
	log       *slog.Logger
}

// New returns the service of the deliveries in a database.
func New(d *db.DB, p *pipelines.Service, b *lifecycle.Service, public core.PublicURL, clock core.Clock, log *slog.Logger) *Service {
	return &Service{db: d, pipelines: p, builds: b, public: public, clock: clock, log: log}
}

const (
	processTask = "webhook-processing" // its key is the pipeline's id
	removalTask = "webhook-removal"
	removeEvery = time.Hour
)

// Background registers the processing and the removal of deliveries.
func (s *Service) Background(r *tasks.Runner) {
	r.Handle(processTask, tasks.Limits{Timeout: processTimeout}, s.process)
	r.Sweep(removalTask, removeEvery, s.removeOld)
}
