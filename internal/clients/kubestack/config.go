package kubestack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Options are the settings of the controller.
type Options struct {
	Namespace string // where jobs run
	// Image is the image of jobs without their own, and of the container that checks out. It needs git and a shell.
	Image string
	// ProgramImage contains this program, at [programPath]; an init container copies it into the pod.
	ProgramImage string
	// MaxPending limits the pods that do not run yet. More jobs are reserved only when pods start.
	MaxPending int
	// StartTimeout is how long a pod may take to start. Then its job is finished with the reason.
	StartTimeout time.Duration
	// Keep is how long Kubernetes keeps pods that have ended.
	Keep time.Duration

	Templates
}

// Templates are what operators say about pods, in a file.
type Templates struct {
	// PodSpec is merged into every pod, as kubectl patch does it: containers by name, the job's is "command".
	PodSpec *corev1.PodSpec `json:"podSpec,omitempty"`
	// Queues has what is merged into the pods of one queue, by key.
	Queues map[string]QueueTemplate `json:"queues,omitempty"`
	// Allow lists what a step may decide with the kubernetes plugin. Authors of pull requests write steps.
	Allow []string `json:"allow,omitempty"`
}

// QueueTemplate is merged into the pods of a queue.
type QueueTemplate struct {
	PodSpec *corev1.PodSpec `json:"podSpec,omitempty"`
}

// defaultAllow is what steps may decide if the operator says nothing: nothing that reaches beyond the pod.
var defaultAllow = []string{"image", "resources", "nodeSelector", "tolerations", "sidecars", "volumes", "volumeMounts"}

// allowable is what an operator can allow.
var allowable = append(slices.Clone(defaultAllow), "serviceAccountName", "podSpec")

// maxTemplates is the maximum size of the templates file.
const maxTemplates = 1 << 20

// ReadTemplates reads a file with templates.
func ReadTemplates(path string) (Templates, error) {
	about, err := os.Stat(path)
	if err != nil {
		return Templates{}, err
	}
	if about.Size() > maxTemplates {
		return Templates{}, fmt.Errorf("%s has more than %d bytes", path, maxTemplates)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Templates{}, err
	}
	t, err := parseTemplates(text)
	if err != nil {
		return Templates{}, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func parseTemplates(text []byte) (t Templates, err error) {
	if len(bytes.TrimSpace(text)) > 0 {
		if err := yaml.UnmarshalStrict(text, &t); err != nil {
			return Templates{}, err
		}
	}
	for _, name := range t.Allow {
		if !slices.Contains(allowable, name) {
			err = errors.Join(err, fmt.Errorf("allow: %q is not one of %v", name, allowable))
		}
	}
	return t, err
}

// allows reports whether a step may decide something.
func (t Templates) allows(name string) bool {
	if t.Allow == nil {
		return slices.Contains(defaultAllow, name)
	}
	return slices.Contains(t.Allow, name)
}
