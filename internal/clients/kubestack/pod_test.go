package kubestack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"stackyard/internal/clients/stackctl"
)

const someJob = "0190aaaa-0000-7000-8000-000000000001"

// build builds the pod of a job with an image and the configuration of the kubernetes plugin, both may be "".
func build(t *testing.T, templates, image, plugin string) (corev1.PodSpec, error) {
	t.Helper()
	parsed, err := parseTemplates([]byte(templates))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SERVICE_PIPELINE_SLUG": "web", "SERVICE_BUILD_NUMBER": "7"}
	if image != "" {
		env["SERVICE_IMAGE"] = image
	}
	if plugin != "" {
		env["SERVICE_PLUGINS"] = `["docker#v1", {"github.com/buildkite-plugins/kubernetes-buildkite-plugin": ` + plugin + `}]`
	}
	p := podFor{
		options:  Options{Namespace: "builds", Image: "scm:1", ProgramImage: "stackyard:1", Keep: time.Minute, Templates: parsed},
		stack:    "kube",
		workload: stackctl.Workload{JobID: someJob, Queue: "gpu", Endpoint: "https://ci.example.com/v3", Tags: []string{"os=linux"}},
		job:      stackctl.Job{Env: env},
	}
	job, err := p.build()
	if err != nil {
		return corev1.PodSpec{}, err
	}
	if job.Name != "stackyard-"+someJob || job.Namespace != "builds" || job.Labels[jobLabel] != someJob || *job.Spec.BackoffLimit != 0 || *job.Spec.TTLSecondsAfterFinished != 60 {
		t.Errorf("the job is %+v", job)
	}
	return job.Spec.Template.Spec, nil
}

func containerOf(spec corev1.PodSpec, name string) corev1.Container {
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	return corev1.Container{}
}

func names(containers []corev1.Container) (list []string) {
	for _, c := range containers {
		list = append(list, c.Name)
	}
	return list
}

func TestPod_HasOneContainerWithoutAnImageAndTwoWithOne(t *testing.T) {
	spec, err := build(t, "", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := names(spec.Containers); !slices.Equal(got, []string{"command"}) || containerOf(spec, "command").Image != "scm:1" {
		t.Errorf("without an image: %v of %s", got, containerOf(spec, "command").Image)
	}
	if spec, err = build(t, "", "golang:1.26", ""); err != nil {
		t.Fatal(err)
	}
	if got := names(spec.Containers); !slices.Equal(got, []string{"command", "agent"}) || containerOf(spec, "command").Image != "golang:1.26" || containerOf(spec, "agent").Image != "scm:1" {
		t.Errorf("with an image: %v", got)
	}
	text, _ := json.Marshal(containerOf(spec, "command"))
	if strings.Contains(string(text), "TOKEN") {
		t.Errorf("the command's container has a token: %s", text)
	}
}

// What the Pod Security Standard "restricted" asks for.
func TestPod_IsRestricted(t *testing.T) {
	spec, err := build(t, "", "golang:1.26", `{"sidecars": [{"name": "db", "image": "postgres:17"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if c := spec.SecurityContext; !*c.RunAsNonRoot || *c.RunAsUser == 0 || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *spec.AutomountServiceAccountToken {
		t.Errorf("the pod has %+v", c)
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if s := c.SecurityContext; s == nil || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("the container %s has %+v", c.Name, s)
		}
	}
}

func TestPod_MergesTemplatesAndStep(t *testing.T) {
	spec, err := build(t, `
podSpec:
  nodeSelector: {pool: ci}
  imagePullSecrets: [{name: registry}]
  containers: [{name: command, env: [{name: A, value: all}], resources: {requests: {cpu: "1"}}}]
queues:
  gpu: {podSpec: {nodeSelector: {gpu: "yes"}, containers: [{name: command, resources: {limits: {nvidia.com/gpu: "1"}}}]}}
  other: {podSpec: {hostNetwork: true}}
`, "golang:1.26", `{"resources": {"requests": {"cpu": "4"}}, "nodeSelector": {"disk": "ssd"},
		"volumes": [{"name": "cache", "emptyDir": {}}], "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
		"sidecars": [{"name": "db", "image": "postgres:17"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	command := containerOf(spec, "command")
	if got := fmt.Sprint(spec.NodeSelector); got != "map[disk:ssd gpu:yes pool:ci]" || spec.HostNetwork {
		t.Errorf("the pod selects %s, host network %v", got, spec.HostNetwork)
	}
	if command.Resources.Requests.Cpu().String() != "4" || command.Resources.Limits.Name("nvidia.com/gpu", "").String() != "1" {
		t.Errorf("the command's container has %v", command.Resources)
	}
	if !slices.ContainsFunc(command.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/cache" }) || len(command.VolumeMounts) != 3 {
		t.Errorf("the command's container has %v", command.VolumeMounts)
	}
	if db := containerOf(spec, "db"); db.RestartPolicy == nil || *db.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("the sidecar is %+v", db)
	}
	if len(command.Command) != 1 || command.Command[0] != "/stackyard/stackyard" || len(spec.ImagePullSecrets) != 1 {
		t.Errorf("the command's container runs %v", command.Command)
	}
}

func TestPod_RefusesWhatStepsMayNotDecide(t *testing.T) {
	for plugin, want := range map[string]string{
		`{"serviceAccountName": "admin"}`:                                                            "serviceAccountName is not allowed",
		`{"podSpec": {"hostNetwork": true}}`:                                                         "podSpec is not allowed",
		`{"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}`:                                 `the volume "root" must be an emptyDir or ephemeral`,
		`{"volumes": [{"name": "keys", "secret": {"secretName": "keys"}}]}`:                          `the volume "keys" must be an emptyDir or ephemeral`,
		`{"volumes": [{"name": "stackyard-workspace", "emptyDir": {}}]}`:                             "is used by the stack",
		`{"sidecars": [{"name": "agent", "image": "x"}]}`:                                            "sidecars[0] needs a name other than",
		`{"sidecars": [{"name": "db"}]}`:                                                             "sidecars[0] needs an image",
		`{"sidecars": [{"name": "db", "image": "x", "envFrom": [{"secretRef": {"name": "keys"}}]}]}`: "must not come from a Secret",
		`{"sidecars": [{"name": "db", "image": "x", "securityContext": {"privileged": true}}]}`:      "securityContext",
		`{"hostNetwork": true}`:                                                                      `unknown field "hostNetwork"`,
		`{"resources": {"requests": {"cpu": "many"}}}`:                                               "quantities must match",
		`"text"`: "cannot unmarshal string",
	} {
		if _, err := build(t, "", "", plugin); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", plugin, err, want)
		}
	}
}

func TestPod_AllowsWhatOperatorsAllow(t *testing.T) {
	spec, err := build(t, "allow: [serviceAccountName, podSpec]", "", `{"serviceAccountName": "deployer", "podSpec": {"containers": [{"image": "golang:1.26"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if spec.ServiceAccountName != "deployer" || containerOf(spec, "command").Image != "golang:1.26" {
		t.Errorf("the pod is %+v", spec)
	}
	if _, err := build(t, "allow: []", "golang:1.26", ""); err == nil || !strings.Contains(err.Error(), "image is not allowed") {
		t.Errorf("an image that is not allowed: %v", err)
	}
}

func TestTemplates_SayWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"podSpec: {hostNetwrk: true}": "hostNetwrk",
		"allow: [everything]":         `"everything" is not one of`,
		"queue: {}":                   `unknown field "queue"`,
	} {
		if _, err := parseTemplates([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %s", text, err, want)
		}
	}
}

func FuzzReadStep(f *testing.F) {
	f.Add(`[{"kubernetes": {"image": "golang:1.26", "sidecars": [{"name": "db", "image": "x"}]}}]`)
	f.Add(`["docker#v1", {"kubernetes": null}]`)
	f.Fuzz(func(t *testing.T, plugins string) {
		s, err := readStep(stackctl.Job{Env: map[string]string{"SERVICE_PLUGINS": plugins}}, Templates{})
		if err == nil && (s.ServiceAccountName != "" || s.PodSpec != nil) {
			t.Errorf("%q decides more than is allowed: %+v", plugins, s)
		}
	})
}
