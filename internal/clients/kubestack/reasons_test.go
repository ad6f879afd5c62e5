package kubestack

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestStatus_OfPods(t *testing.T) {
	waiting := func(reason, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "command", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
	ended := func(code int32, reason string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "command", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}}
	}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   podStatus
	}{
		"new":               {corev1.PodStatus{Phase: corev1.PodPending}, podStatus{}},
		"creating":          {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting("ContainerCreating", "")}, podStatus{}},
		"no node":           {corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}}, podStatus{notice: "No node can run the pod: Unschedulable: 0/3 nodes are available"}},
		"image pull":        {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting("ImagePullBackOff", "Back-off pulling image")}, podStatus{notice: "The container command waits: ImagePullBackOff: Back-off pulling image"}},
		"init image pull":   {corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: waiting("ErrImagePull", "not found")}, podStatus{notice: "The container command waits: ErrImagePull: not found"}},
		"running":           {corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}, podStatus{started: true}},
		"out of memory":     {corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: ended(137, "OOMKilled")}, podStatus{started: true, notice: "The container command ended with status 137: it used more memory than its limit (OOMKilled)"}},
		"succeeded":         {corev1.PodStatus{Phase: corev1.PodSucceeded}, podStatus{started: true, ended: true}},
		"failed":            {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: ended(1, "Error")}, podStatus{started: true, ended: true, notice: "The container command ended with status 1: Error", failure: "The container command ended with status 1: Error"}},
		"evicted":           {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}, podStatus{started: true, ended: true, notice: "The pod failed: Evicted: The node was low on resource: memory.", failure: "The pod failed: Evicted: The node was low on resource: memory."}},
		"failed, no reason": {corev1.PodStatus{Phase: corev1.PodFailed}, podStatus{started: true, ended: true, notice: "The pod failed without a reason", failure: "The pod failed without a reason"}},
	} {
		if got := statusOf(&corev1.Pod{Status: tc.status}); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestNotice_OfEvents(t *testing.T) {
	for _, tc := range []struct{ reason, message, want string }{
		{"FailedCreate", `pods "x" is forbidden: exceeded quota: ci`, `Kubernetes cannot create the pod: pods "x" is forbidden: exceeded quota: ci`},
		{"Pulling", `Pulling image "golang:1.26"`, `Pulling image "golang:1.26"`},
		{"Evicted", "low on memory", "Evicted: low on memory"},
		{"SuccessfulCreate", "Created pod: x", ""},
	} {
		if got := noticeOf(&corev1.Event{Reason: tc.reason, Message: tc.message}); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
		}
	}
}
