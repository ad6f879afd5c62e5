package kubestack

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"stackyard/internal/clients/stackctl"
)

// Labels and annotations of everything that the controller creates.
const (
	managedLabel = "app.kubernetes.io/managed-by"
	managedBy    = "stackyard-stack"
	stackLabel   = "stackyard.dev/stack"
	jobLabel     = "stackyard.dev/job"

	queueAnnotation    = "stackyard.dev/queue"
	pipelineAnnotation = "stackyard.dev/pipeline"
	buildAnnotation    = "stackyard.dev/build"
	labelAnnotation    = "stackyard.dev/label"
)

// The containers and volumes of a pod.
const (
	commandContainer = "command" // the step's image, runs its command
	agentContainer   = "agent"   // checks out, uploads artifacts, reports; only if the step has an image
	injectContainer  = "inject"  // copies the program into the pod

	workspaceVolume = "stackyard-workspace"
	programVolume   = "stackyard-program"
)

var (
	ourContainers = []string{commandContainer, agentContainer, injectContainer}
	ourVolumes    = []string{workspaceVolume, programVolume}
)

// Places in a pod.
const (
	workspace     = "/workspace"
	programFolder = "/stackyard"
	programPath   = "/usr/bin/stackyard" // in the image with the program
	commandSocket = workspace + "/command.sock"
)

// tokenKey is the key of the acquisition token in a job's Secret.
const tokenKey = "token"

// user is the user of all containers unless a template says otherwise; groups of volumes too.
const user = int64(65532)

// terminationGrace is how long a pod that is deleted may take: the agent cancels its job and reports it.
const terminationGrace = int64(30)

// objectName returns the name of the Kubernetes Job and Secret of a job. It depends on the job only, so that
// two controllers cannot start the same job twice.
func objectName(jobID string) string { return "stackyard-" + jobID }

// A podFor describes the pod of one job.
type podFor struct {
	options  Options
	stack    string
	workload stackctl.Workload
	job      stackctl.Job
}

// build returns the Kubernetes Job.
func (p podFor) build() (*batchv1.Job, error) {
	s, err := readStep(p.job, p.options.Templates)
	if err != nil {
		return nil, err
	}
	spec, err := p.merged(s)
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{
		Labels: map[string]string{managedLabel: managedBy, stackLabel: p.stack, jobLabel: p.workload.JobID},
		Annotations: map[string]string{
			queueAnnotation:    p.workload.Queue,
			pipelineAnnotation: p.job.Env["SERVICE_PIPELINE_SLUG"],
			buildAnnotation:    p.job.Env["SERVICE_BUILD_NUMBER"],
			labelAnnotation:    p.job.Env["SERVICE_LABEL"],
		},
	}
	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: *meta.DeepCopy(),
		Spec: batchv1.JobSpec{
			BackoffLimit:            ptr(int32(0)), // the server decides about retries
			TTLSecondsAfterFinished: ptr(int32(p.options.Keep.Seconds())),
			Template:                corev1.PodTemplateSpec{ObjectMeta: meta, Spec: spec},
		},
	}
	job.Namespace, job.Name = p.options.Namespace, objectName(p.workload.JobID)
	return job, nil
}

// merged returns the pod spec: ours, then the operator's for all queues and for this queue, then the step's.
func (p podFor) merged(s step) (corev1.PodSpec, error) {
	spec := p.base(s.Image)
	layers := []struct {
		of   string
		spec *corev1.PodSpec
	}{
		{"the templates", p.options.PodSpec},
		{"the templates of the queue " + p.workload.Queue, p.options.Queues[p.workload.Queue].PodSpec},
		{"the kubernetes plugin of the step", s.podSpec()},
		{"podSpec of the kubernetes plugin of the step", s.PodSpec},
	}
	for _, layer := range layers {
		if layer.spec == nil {
			continue
		}
		var err error
		if spec, err = merge(spec, *layer.spec); err != nil {
			return spec, fmt.Errorf("merge %s: %w", layer.of, err)
		}
	}
	return spec, p.checkMerged(spec)
}

// checkMerged makes sure that templates left what the stack needs.
func (p podFor) checkMerged(spec corev1.PodSpec) error {
	for i, c := range spec.Containers {
		if c.Image == "" {
			return fmt.Errorf("the container %q has no image", c.Name)
		}
		for _, other := range spec.Containers[:i] {
			if other.Name == c.Name {
				return fmt.Errorf("the pod has two containers with the name %q", c.Name)
			}
		}
	}
	return nil
}

// merge merges a pod spec into another as kubectl patch does: lists of named things by name.
func merge(into, patch corev1.PodSpec) (corev1.PodSpec, error) {
	original, err := json.Marshal(into)
	if err != nil {
		return into, err
	}
	changes, err := json.Marshal(patch)
	if err != nil {
		return into, err
	}
	// A typed pod spec always has the list of containers; null would remove ours.
	if len(patch.Containers) == 0 {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(changes, &fields); err != nil {
			return into, err
		}
		delete(fields, "containers")
		if changes, err = json.Marshal(fields); err != nil {
			return into, err
		}
	}
	merged, err := strategicpatch.StrategicMergePatch(original, changes, corev1.PodSpec{})
	if err != nil {
		return into, err
	}
	var result corev1.PodSpec
	return result, json.Unmarshal(merged, &result)
}

// podSpec returns the simple settings of the plugin as a pod spec.
func (s step) podSpec() *corev1.PodSpec {
	command := corev1.Container{Name: commandContainer, VolumeMounts: s.VolumeMounts}
	if s.Resources != nil {
		command.Resources = *s.Resources
	}
	spec := &corev1.PodSpec{
		Containers: []corev1.Container{command}, NodeSelector: s.NodeSelector, Tolerations: s.Tolerations,
		Volumes: s.Volumes, ServiceAccountName: s.ServiceAccountName,
	}
	for _, sidecar := range s.Sidecars {
		// Kubernetes stops init containers that restart always when the other containers have ended.
		sidecar.RestartPolicy = ptr(corev1.ContainerRestartPolicyAlways)
		sidecar.SecurityContext = restricted()
		spec.InitContainers = append(spec.InitContainers, sidecar)
	}
	return spec
}

// base returns the pod without templates. Without an image of the step, one container runs everything. With
// one, its container runs the command only, so that it needs neither git nor anything else of ours.
func (p podFor) base(image string) corev1.PodSpec {
	workspaceMount := corev1.VolumeMount{Name: workspaceVolume, MountPath: workspace}
	programMount := corev1.VolumeMount{Name: programVolume, MountPath: programFolder, ReadOnly: true}
	program := path.Join(programFolder, "stackyard")
	container := func(name, image string, args ...string) corev1.Container {
		return corev1.Container{
			Name: name, Image: image, Command: []string{program}, Args: args, WorkingDir: workspace,
			VolumeMounts: []corev1.VolumeMount{workspaceMount, programMount}, SecurityContext: restricted(),
		}
	}
	agent := container(commandContainer, p.options.Image, "agent", "--build-path", path.Join(workspace, "builds"), "--step-images", "ignore")
	containers := []corev1.Container{}
	if image != "" {
		agent.Name = agentContainer
		agent.Args = append(agent.Args, "--command-socket", commandSocket)
		containers = append(containers, container(commandContainer, image, "agent", "run-commands", commandSocket))
	}
	agent.Env = p.agentEnv()
	inject := corev1.Container{
		Name: injectContainer, Image: p.options.ProgramImage, Command: []string{programPath}, Args: []string{"agent", "copy-program", program},
		VolumeMounts:    []corev1.VolumeMount{{Name: programVolume, MountPath: programFolder}},
		SecurityContext: restricted(),
		Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")}},
	}
	return corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  ptr(false),
		EnableServiceLinks:            ptr(false),
		TerminationGracePeriodSeconds: ptr(terminationGrace),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr(true), RunAsUser: ptr(user), RunAsGroup: ptr(user), FSGroup: ptr(user),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		InitContainers: []corev1.Container{inject},
		Containers:     append(containers, agent),
		Volumes: []corev1.Volume{
			{Name: workspaceVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: programVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
}

// agentEnv returns the variables of the agent. The acquisition token is the only credential in the pod; it lets
// one agent take this one job.
func (p podFor) agentEnv() []corev1.EnvVar {
	w := p.workload
	return []corev1.EnvVar{
		{Name: "SERVICE_AGENT_TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: objectName(w.JobID)}, Key: tokenKey}}},
		{Name: "SERVICE_AGENT_ACQUIRE_JOB", Value: w.JobID},
		{Name: "SERVICE_AGENT_ENDPOINT", Value: w.Endpoint},
		{Name: "SERVICE_AGENT_TAGS", Value: strings.Join(w.Tags, ",")},
		{Name: "TMPDIR", Value: workspace},
		{Name: "HOME", Value: workspace},
	}
}

// restricted returns the security context that the Pod Security Standard "restricted" asks of containers.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// secret returns the Secret with a job's acquisition token.
func (p podFor) secret(token string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.options.Namespace, Name: objectName(p.workload.JobID),
			Labels: map[string]string{managedLabel: managedBy, stackLabel: p.stack, jobLabel: p.workload.JobID},
		},
		Type:       corev1.SecretTypeOpaque,
		StringData: map[string]string{tokenKey: token},
	}
}

func ptr[T any](value T) *T { return &value }
