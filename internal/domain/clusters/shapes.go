package clusters

import (
	"slices"
	"strings"

	"stackyard/internal/platform/core"
)

// Platform is the operating system of a hosted queue's agents.
type Platform string

const (
	Linux Platform = "linux"
	MacOS Platform = "macos"
)

// Values lists all values.
func (Platform) Values() []string { return []string{string(Linux), string(MacOS)} }

// A Shape is the machine type of a hosted queue's agents.
type Shape struct {
	Name         string
	Platform     Platform
	Architecture string
	CPU          int // cores
	Memory       int // GB
}

// shapes lists all shapes; the first one of each platform is its default.
var shapes = []Shape{
	{"LINUX_AMD64_2X4", Linux, "amd64", 2, 4},
	{"LINUX_AMD64_4X16", Linux, "amd64", 4, 16},
	{"LINUX_AMD64_8X32", Linux, "amd64", 8, 32},
	{"LINUX_AMD64_16X64", Linux, "amd64", 16, 64},
	{"LINUX_ARM64_2X4", Linux, "arm64", 2, 4},
	{"LINUX_ARM64_4X16", Linux, "arm64", 4, 16},
	{"LINUX_ARM64_8X32", Linux, "arm64", 8, 32},
	{"LINUX_ARM64_16X64", Linux, "arm64", 16, 64},
	{"MACOS_ARM64_M4_6X28", MacOS, "arm64", 6, 28},
	{"MACOS_ARM64_M4_12X56", MacOS, "arm64", 12, 56},
}

func shapeByName(name string) (Shape, bool) {
	i := slices.IndexFunc(shapes, func(s Shape) bool { return s.Name == name })
	if i < 0 {
		return Shape{}, false
	}
	return shapes[i], true
}

// defaultShape returns the default shape of a platform.
func defaultShape(p Platform) Shape {
	return shapes[slices.IndexFunc(shapes, func(s Shape) bool { return s.Platform == p })]
}

// shapeNames lists the shapes for a message.
func shapeNames() string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// HostedAgents describes the agents that the service starts for a hosted queue.
type HostedAgents struct {
	Shape    string `json:"instance_shape"`
	ImageRef string `json:"agent_image_ref,omitempty"` // "": the platform's own image
}

// defaultHostedAgents returns the hosted agents that a platform has by default.
func defaultHostedAgents(p Platform) *HostedAgents { return &HostedAgents{Shape: defaultShape(p).Name} }

// shape returns the shape of the agents. Its name was validated when it was set.
func (h *HostedAgents) shape() Shape {
	s, _ := shapeByName(h.Shape)
	return s
}

// maxImageRef is the length limit of an image reference.
const maxImageRef = 1024

// check reports errors in the fields that callers set.
func (h *HostedAgents) check(problems *core.Problems) {
	shape, known := shapeByName(h.Shape)
	switch {
	case h.Shape == "":
		problems.Add("hostedAgents.instanceShape", "is required")
	case !known:
		problems.Add("hostedAgents.instanceShape", "must be one of %s", shapeNames())
	case h.ImageRef != "" && shape.Platform != Linux:
		problems.Add("hostedAgents.agentImageRef", "can be given for Linux agents only")
	}
	checkText(problems, "hostedAgents.agentImageRef", h.ImageRef, maxImageRef)
}
