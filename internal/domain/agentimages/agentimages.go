// Package agentimages manages custom images of hosted agents: a Dockerfile on top of a base image, built in the
// background.
//
// An [Image] belongs to a hosted cluster. Creating or changing it adds a build, a row with a task (build.go). The
// task runs the builder, keeps its log, and makes the image READY or FAILED. The reference of a built image can be
// assigned to queues of the cluster; an image that a queue uses is not deleted. A build row exists as long as its
// real image may: the task that removes the real image removes the row (removal.go).
//
// The builder is buildah (buildah.go), which needs no daemon. Without it, images can be managed and end as FAILED.
package agentimages

import (
	"cmp"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Status is the state of an image.
type Status string

const (
	Building Status = "BUILDING"
	Ready    Status = "READY"
	Failed   Status = "FAILED"
)

// Values lists all values.
func (Status) Values() []string { return []string{string(Building), string(Ready), string(Failed)} }

// An Image is a custom image for the hosted agents of a cluster.
type Image struct {
	ID             string
	OrganizationID string
	ClusterID      string
	Name           string // unique in the cluster
	Dockerfile     string // without FROM
	BaseImage      string // the FROM line
	Status         Status
	Version        int    // counts builds
	ImageRef       string // of the last version that was built; "": none
	LastError      string // why the version failed
	CreatedBy      string // id of a user, written once
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Limits of images.
const (
	maxName    = 255 // characters
	maxImages  = 100 // of a cluster; the list is not paginated
	noImage    = "No agent image found"
	retryAfter = 60 // seconds
)

// check reports errors in the fields that callers set.
func (i *Image) check(problems *core.Problems) {
	switch n := utf8.RuneCountInString(i.Name); {
	case i.Name == "":
		problems.Add("name", "is required")
	case n > maxName:
		problems.Add("name", "must have at most %d characters, not %d", maxName, n)
	case strings.ContainsFunc(i.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		problems.Add("name", "must not have control characters")
	}
	if err := checkDockerfile(i.BaseImage, i.Dockerfile); err != nil {
		problems.Add("dockerfile", "%s", err)
	}
}

// shownRef returns the reference of the image if it is ready.
func (i *Image) shownRef() string {
	if i.Status != Ready {
		return ""
	}
	return i.ImageRef
}

// Service manages agent images.
type Service struct {
	db       *db.DB
	clusters *clusters.Service
	bus      *bus.Bus
	public   core.PublicURL
	clock    core.Clock
	log      *slog.Logger
	host     string // where this server stores images
	lazy     lazyStore
	draining <-chan struct{}
	drain    func()
	Settings
}

// Settings configure images.
type Settings struct {
	// Folder is where images are built and stored; "": nothing can be built.
	Folder string
	// Registry is where images are pushed to, such as registry.example.com/agents; "": they stay in the folder.
	Registry string
	// RegistryInsecure allows a registry without TLS.
	RegistryInsecure bool
	// BuildTimeout, BuildMemory and BuildDisk limit a build; 0: default.
	BuildTimeout time.Duration
	BuildMemory  int64
	BuildDisk    int64
	// BaseImage is the image that all images start from.
	BaseImage string
	// Disabled makes images unavailable: this installation has no service for hosted agents.
	Disabled bool
}

// DefaultBaseImage has git and certificates.
const DefaultBaseImage = "docker.io/library/buildpack-deps:bookworm-scm"

// New returns a Service.
func New(d *db.DB, c *clusters.Service, b *bus.Bus, public core.PublicURL, clock core.Clock, log *slog.Logger, settings Settings) (*Service, error) {
	settings.BaseImage = cmp.Or(settings.BaseImage, DefaultBaseImage)
	settings.BuildTimeout = min(cmp.Or(settings.BuildTimeout, DefaultBuildTimeout), MaxBuildTimeout)
	settings.BuildMemory = cmp.Or(settings.BuildMemory, DefaultBuildMemory)
	settings.BuildDisk = cmp.Or(settings.BuildDisk, DefaultBuildDisk)
	host, err := hostID(settings.Folder)
	if err != nil {
		return nil, err
	}
	s := &Service{db: d, clusters: c, bus: b, public: public, clock: clock, log: log, host: host, Settings: settings}
	draining := make(chan struct{})
	s.draining, s.drain = draining, sync.OnceFunc(func() { close(draining) })
	c.CheckImages(s.checkAssignable)
	return s, nil
}

// fromLine returns the first line of new images.
func (s *Service) fromLine() string { return "FROM " + s.BaseImage }
