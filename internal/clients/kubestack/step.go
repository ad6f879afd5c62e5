package kubestack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"stackyard/internal/clients/stackctl"
)

// A step is what a step decides about its pod: its image, and the configuration of its kubernetes plugin.
type step struct {
	Image              string                       `json:"image"`
	Resources          *corev1.ResourceRequirements `json:"resources"`
	NodeSelector       map[string]string            `json:"nodeSelector"`
	Tolerations        []corev1.Toleration          `json:"tolerations"`
	Sidecars           []corev1.Container           `json:"sidecars"`
	Volumes            []corev1.Volume              `json:"volumes"`
	VolumeMounts       []corev1.VolumeMount         `json:"volumeMounts"`
	ServiceAccountName string                       `json:"serviceAccountName"`
	PodSpec            *corev1.PodSpec              `json:"podSpec"`
}

// pluginName is the name of the plugin. Servers may send its source in full, which ends with the suffix.
const (
	pluginName   = "kubernetes"
	pluginSuffix = "-buildkite-plugin"
)

// readStep reads what a step decides from the environment of its job, and checks it against what the operator
// allows.
func readStep(job stackctl.Job, t Templates) (step, error) {
	var s step
	found, err := pluginOf(job.Env["SERVICE_PLUGINS"])
	if err != nil {
		return step{}, err
	}
	if len(found) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(found))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&s); err != nil {
			return step{}, fmt.Errorf("the kubernetes plugin of the step: %w", err)
		}
	}
	if s.Image == "" {
		s.Image = job.Env["SERVICE_IMAGE"]
	}
	if err := s.check(t); err != nil {
		return step{}, fmt.Errorf("the kubernetes plugin of the step: %w", err)
	}
	return s, nil
}

// pluginOf returns the configuration of the kubernetes plugin in the plugins of a step, nil if there is none.
func pluginOf(plugins string) (json.RawMessage, error) {
	if strings.TrimSpace(plugins) == "" {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(plugins), &list); err != nil {
		return nil, fmt.Errorf("read the plugins of the step: %w", err)
	}
	for _, one := range list {
		var object map[string]json.RawMessage
		if json.Unmarshal(one, &object) != nil {
			continue // a plugin without configuration
		}
		for source, config := range object {
			if name, _, _ := strings.Cut(source, "#"); strings.TrimSuffix(path.Base(name), pluginSuffix) == pluginName && string(config) != "null" {
				return config, nil
			}
		}
	}
	return nil, nil
}

// check returns what a step may not decide, all of it at once.
func (s step) check(t Templates) error {
	var problems []error
	for _, part := range []struct {
		name string
		set  bool
	}{
		{"image", s.Image != ""},
		{"resources", s.Resources != nil},
		{"nodeSelector", len(s.NodeSelector) > 0},
		{"tolerations", len(s.Tolerations) > 0},
		{"sidecars", len(s.Sidecars) > 0},
		{"volumes", len(s.Volumes) > 0},
		{"volumeMounts", len(s.VolumeMounts) > 0},
		{"serviceAccountName", s.ServiceAccountName != ""},
		{"podSpec", s.PodSpec != nil},
	} {
		if part.set && !t.allows(part.name) {
			problems = append(problems, fmt.Errorf("%s is not allowed by this stack's templates (allow)", part.name))
		}
	}
	return errors.Join(append(problems, s.checkVolumes(t), s.checkSidecars(), s.checkContainers())...)
}

// checkVolumes refuses volumes that reach beyond the pod, such as the node's folders or the namespace's secrets,
// unless the operator allows steps to write pod specs.
func (s step) checkVolumes(t Templates) error {
	var problems []error
	for _, v := range s.Volumes {
		if slices.Contains(ourVolumes, v.Name) {
			problems = append(problems, fmt.Errorf("the volume name %q is used by the stack", v.Name))
		}
		if v.EmptyDir == nil && v.Ephemeral == nil && !t.allows("podSpec") {
			problems = append(problems, fmt.Errorf("the volume %q must be an emptyDir or ephemeral; others belong into the stack's templates", v.Name))
		}
	}
	return errors.Join(problems...)
}

func (s step) checkSidecars() error {
	var problems []error
	for i, c := range s.Sidecars {
		if c.Name == "" || slices.Contains(ourContainers, c.Name) {
			problems = append(problems, fmt.Errorf("sidecars[%d] needs a name other than %s", i, strings.Join(ourContainers, ", ")))
		}
		if c.Image == "" {
			problems = append(problems, fmt.Errorf("sidecars[%d] needs an image", i))
		}
		if c.SecurityContext != nil {
			problems = append(problems, fmt.Errorf("sidecars[%d].securityContext is the stack's to decide; put it into the templates", i))
		}
		for _, e := range append(slices.Clone(c.Env), envFrom(c)...) {
			if e.ValueFrom != nil && (e.ValueFrom.SecretKeyRef != nil || e.ValueFrom.ConfigMapKeyRef != nil) {
				problems = append(problems, fmt.Errorf("sidecars[%d].env: %s must not come from a Secret or ConfigMap; put it into the stack's templates", i, e.Name))
			}
		}
	}
	return errors.Join(problems...)
}

// envFrom returns the variables of whole Secrets and ConfigMaps in the shape of single ones.
func envFrom(c corev1.Container) []corev1.EnvVar {
	var list []corev1.EnvVar
	for _, from := range c.EnvFrom {
		list = append(list, corev1.EnvVar{Name: "envFrom", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{}, ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: from.Prefix}}})
	}
	return list
}

// checkContainers refuses what the pod spec of a step cannot change.
func (s step) checkContainers() error {
	if s.PodSpec == nil {
		return nil
	}
	var problems []error
	for i := range s.PodSpec.Containers {
		c := &s.PodSpec.Containers[i]
		if c.Name == "" && i == 0 {
			c.Name = commandContainer
		}
		if c.Name == commandContainer && (len(c.Command) > 0 || len(c.Args) > 0) {
			problems = append(problems, errors.New("podSpec.containers: the first container runs the step's command; write it as the command of the step"))
		}
	}
	return errors.Join(problems...)
}
