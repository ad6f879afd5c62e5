package kubetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// encoded returns values as an API server keeps the data of Secrets.
func encoded(data object) object {
	result := object{}
	for name, value := range data {
		result[name] = base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(value)))
	}
	return result
}

// A Node runs pods. It and the controllers of Jobs read the API server's history, as they would watch.
type Node struct {
	API *API
	// Program is the stackyard binary, which the image "stackyard:test" contains as /usr/bin/stackyard. Every
	// other image is this machine's /usr, without the program.
	Program string
	// Dir is where volumes are.
	Dir string

	pods sync.Map // cancel functions by name
	all  sync.WaitGroup
}

// Missing is the name of images that cannot be pulled, NoRoom a node selector that no node has.
const (
	Missing = "missing:latest"
	NoRoom  = "no-room"
)

// Run runs pods until the test ends.
func (n *Node) Run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { n.follow(ctx) })
	t.Cleanup(func() {
		cancel()
		loop.Wait()
		n.all.Wait()
	})
}

func (n *Node) follow(ctx context.Context) {
	for version := 0; ; {
		n.API.mu.Lock()
		var news []event
		for _, e := range n.API.history {
			if e.version > version {
				news = append(news, e)
			}
		}
		grown := n.API.grown
		n.API.mu.Unlock()
		for _, e := range news {
			version = e.version
			n.react(ctx, e)
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return
		}
	}
}

func (n *Node) react(ctx context.Context, e event) {
	switch {
	case e.resource == "jobs" && e.kind == "ADDED":
		n.createPod(e)
	case e.resource == "pods" && e.kind == "ADDED":
		var pod corev1.Pod
		convert(e.object, &pod)
		running, stop := context.WithCancel(ctx)
		n.pods.Store(pod.Name, stop)
		n.all.Go(func() {
			defer stop()
			n.runPod(running, &pod)
		})
	case e.resource == "pods" && metaOf(e.object)["deletionTimestamp"] != nil:
		if stop, ok := n.pods.Load(metaOf(e.object)["name"]); ok {
			stop.(context.CancelFunc)()
		}
	}
}

// createPod does what the controller of Jobs does.
func (n *Node) createPod(e event) {
	var job batchv1.Job
	convert(e.object, &job)
	pod := object{
		"metadata": object{
			"name": job.Name + "-x7x7x", "namespace": job.Namespace, "labels": job.Spec.Template.Labels, "annotations": job.Spec.Template.Annotations,
			"ownerReferences": []any{object{"apiVersion": "batch/v1", "kind": "Job", "name": job.Name, "uid": string(job.UID)}},
		},
		"spec": job.Spec.Template.Spec, "status": object{"phase": "Pending"},
	}
	pod = clone(pod)
	n.API.mu.Lock()
	defer n.API.mu.Unlock()
	if n.API.objects["jobs/"+job.Namespace+"/"+job.Name] != nil {
		metaOf(pod)["uid"] = fmt.Sprintf("uid-%d", n.API.version+1)
		n.API.store("pods/"+job.Namespace+"/"+job.Name+"-x7x7x", "pods", "ADDED", pod)
	}
}

// setStatus changes the status of an object, if it is still there.
func (n *Node) setStatus(resource, namespace, name string, status any) {
	n.API.mu.Lock()
	defer n.API.mu.Unlock()
	key := resource + "/" + namespace + "/" + name
	if o := n.API.objects[key]; o != nil {
		changed := clone(o)
		changed["status"] = status
		n.API.store(key, resource, "MODIFIED", clone(changed))
	}
}

// runPod runs the containers of a pod and reports what happens to them.
func (n *Node) runPod(ctx context.Context, pod *corev1.Pod) {
	defer n.remove(pod)
	if pod.Spec.NodeSelector["room"] == NoRoom {
		n.setStatus("pods", pod.Namespace, pod.Name, corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."}}})
		<-ctx.Done()
		return
	}
	for _, c := range pod.Spec.Containers {
		if c.Image == Missing {
			n.setStatus("pods", pod.Namespace, pod.Name, corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				Name: c.Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "failed to pull and unpack image \"" + c.Image + "\": not found"}}}}})
			<-ctx.Done()
			return
		}
	}
	dir, err := os.MkdirTemp(n.Dir, "pod-")
	if err != nil {
		slog.Error("create the folder of a pod", "error", err)
		return
	}
	status := n.runContainers(ctx, pod, dir)
	os.RemoveAll(dir)
	n.setStatus("pods", pod.Namespace, pod.Name, status)
	condition := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	if status.Phase == corev1.PodFailed {
		condition = batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit"}
	}
	n.setStatus("jobs", pod.Namespace, strings.TrimSuffix(pod.Name, "-x7x7x"), object{"conditions": []any{condition}, "completionTime": time.Now().UTC().Format(time.RFC3339)})
}

// remove deletes a pod that was marked as deleted.
func (n *Node) remove(pod *corev1.Pod) {
	n.API.mu.Lock()
	defer n.API.mu.Unlock()
	key := "pods/" + pod.Namespace + "/" + pod.Name
	if o := n.API.objects[key]; o != nil && metaOf(o)["deletionTimestamp"] != nil {
		n.API.delete(key, "pods", o, []byte(`{"gracePeriodSeconds":0}`))
	}
}

// runContainers runs init containers one after the other, then the others at the same time.
func (n *Node) runContainers(ctx context.Context, pod *corev1.Pod, dir string) corev1.PodStatus {
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil { // a sidecar
			stop := make(chan struct{})
			var sidecar sync.WaitGroup
			sidecar.Go(func() { n.runContainer(ctx, pod, c, dir, stop) })
			defer sidecar.Wait()
			defer close(stop)
			continue
		}
		if t := n.runContainer(ctx, pod, c, dir, nil); t.ExitCode != 0 {
			return corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{{Name: c.Name, State: corev1.ContainerState{Terminated: &t}}}}
		}
	}
	statuses := make([]corev1.ContainerStatus, len(pod.Spec.Containers))
	for i, c := range pod.Spec.Containers {
		statuses[i] = corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	n.setStatus("pods", pod.Namespace, pod.Name, corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: statuses})
	var containers sync.WaitGroup
	for i, c := range pod.Spec.Containers {
		containers.Go(func() {
			t := n.runContainer(ctx, pod, c, dir, nil)
			statuses[i] = corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Terminated: &t}}
		})
	}
	containers.Wait()
	status := corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: statuses}
	for _, s := range statuses {
		if s.State.Terminated.ExitCode != 0 {
			status.Phase = corev1.PodFailed
		}
	}
	return status
}

// runContainer runs a container as a process that sees its volumes and its image only.
func (n *Node) runContainer(ctx context.Context, pod *corev1.Pod, c corev1.Container, dir string, stop <-chan struct{}) corev1.ContainerStateTerminated {
	args := []string{"--die-with-parent", "--unshare-pid", "--unshare-ipc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}
	if strings.HasPrefix(c.Image, "stackyard:") { // like the real one, it has no shell
		args = append(args, "--ro-bind", n.Program, "/usr/bin/stackyard", "--ro-bind", "/usr/lib", "/usr/lib", "--ro-bind", "/usr/lib64", "/usr/lib64", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64")
	} else {
		args = append(args, "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/sbin", "/sbin")
	}
	for _, m := range c.VolumeMounts {
		volume := filepath.Join(dir, m.Name)
		if at := hostPath(pod, m.Name); at != "" {
			volume = at
		} else if err := os.MkdirAll(volume, 0o777); err != nil {
			return terminated(err)
		}
		bind := "--bind"
		if m.ReadOnly {
			bind = "--ro-bind"
		}
		args = append(args, bind, volume, m.MountPath)
	}
	if c.WorkingDir != "" {
		args = append(args, "--chdir", c.WorkingDir)
	}
	args = append(append(append(args, "--"), c.Command...), c.Args...)
	cmd := exec.CommandContext(ctx, "bwrap", args...)
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "IMAGE=" + c.Image, "CONTAINER=" + c.Name}, n.environment(pod, c)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Second
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return terminated(err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-stop:
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		case <-ended:
		}
	}()
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		text := said.String()
		return corev1.ContainerStateTerminated{ExitCode: int32(exit.ExitCode()), Reason: "Error", Message: text[max(0, len(text)-500):]}
	}
	if err != nil {
		return terminated(err)
	}
	return corev1.ContainerStateTerminated{Reason: "Completed"}
}

// hostPath returns the folder of this machine that is a volume of a pod, "" if the volume is another one.
func hostPath(pod *corev1.Pod, name string) string {
	for _, v := range pod.Spec.Volumes {
		if v.Name == name && v.HostPath != nil {
			return v.HostPath.Path
		}
	}
	return ""
}

func terminated(err error) corev1.ContainerStateTerminated {
	return corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: err.Error()}
}

// environment returns the variables of a container, those of Secrets included.
func (n *Node) environment(pod *corev1.Pod, c corev1.Container) []string {
	var env []string
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			n.API.mu.Lock()
			secret := n.API.objects["secrets/"+pod.Namespace+"/"+e.ValueFrom.SecretKeyRef.Name]
			data, _ := secret["data"].(object)
			text, _ := data[e.ValueFrom.SecretKeyRef.Key].(string)
			n.API.mu.Unlock()
			decoded, _ := base64.StdEncoding.DecodeString(text)
			value = string(decoded)
		}
		env = append(env, e.Name+"="+value)
	}
	return env
}

// Names returns the names of the objects of a resource.
func (a *API) Names(resource string) (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.objects {
		if rest, ok := strings.CutPrefix(key, resource+"/"); ok {
			names = append(names, rest)
		}
	}
	return names
}

// RunningPods returns the number of pods that have not ended.
func (a *API) RunningPods() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, o := range a.objects {
		if status, _ := o["status"].(object); strings.HasPrefix(key, "pods/") && (status["phase"] == "Pending" || status["phase"] == "Running") {
			n++
		}
	}
	return n
}

func convert(o object, into any) {
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(err) // the API server stores only what it decoded
	}
}

// Kubeconfig writes a kubeconfig file for the API server.
func (a *API) Kubeconfig(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],"clusters":[{"name":"x","cluster":{"server":%q}}],"users":[{"name":"x","user":{}}]}`, a.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
