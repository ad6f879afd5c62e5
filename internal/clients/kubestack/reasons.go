package kubestack

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// A podStatus is what people and the stack need to know about the pod of a job.
type podStatus struct {
	started bool   // a container of the job runs or has run
	ended   bool   // no container of the job runs any more
	notice  string // why the pod does not run yet, or what happens to it; "" if there is nothing to say
	failure string // why the pod failed; "" if it did not
}

// statusOf reads the status of a pod.
func statusOf(pod *corev1.Pod) podStatus {
	var s podStatus
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		s.started, s.ended = true, true
		return s
	case corev1.PodFailed:
		s.started, s.ended, s.failure = true, true, failureOf(pod)
		s.notice = s.failure
		return s
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil || c.State.Terminated != nil {
			s.started = true
		}
		if t := c.State.Terminated; t != nil && t.Reason == "OOMKilled" {
			s.notice = terminated(c.Name, t)
		}
	}
	if !s.started {
		s.notice = waitingFor(pod)
	}
	return s
}

// waitingFor returns why a pod does not run yet.
func waitingFor(pod *corev1.Pod) string {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			w := c.State.Waiting
			if w == nil || w.Reason == "" || w.Reason == "PodInitializing" || w.Reason == "ContainerCreating" {
				continue
			}
			return fmt.Sprintf("The container %s waits: %s", c.Name, sentence(w.Reason, w.Message))
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "No node can run the pod: " + sentence(c.Reason, c.Message)
		}
	}
	return ""
}

// failureOf returns why a pod failed: the node's reason, or each container that failed.
func failureOf(pod *corev1.Pod) string {
	var parts []string
	if pod.Status.Reason != "" || pod.Status.Message != "" {
		parts = append(parts, "The pod failed: "+sentence(pod.Status.Reason, pod.Status.Message))
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			if t := c.State.Terminated; t != nil && (t.ExitCode != 0 || t.Signal != 0) {
				parts = append(parts, terminated(c.Name, t))
			}
		}
	}
	if len(parts) == 0 {
		return "The pod failed without a reason"
	}
	return strings.Join(parts, "\n")
}

func terminated(container string, t *corev1.ContainerStateTerminated) string {
	reason := t.Reason
	if reason == "OOMKilled" {
		reason = "it used more memory than its limit (OOMKilled)"
	}
	return fmt.Sprintf("The container %s ended with status %d: %s", container, t.ExitCode, sentence(reason, t.Message))
}

func sentence(reason, message string) string {
	message = strings.TrimSpace(message)
	switch {
	case message == "":
		return reason
	case reason == "" || strings.Contains(message, reason):
		return message
	default:
		return reason + ": " + message
	}
}

// failedJob returns why a Kubernetes Job failed, "" if it did not.
func failedJob(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return "The Kubernetes Job failed: " + sentence(c.Reason, c.Message)
		}
	}
	return ""
}

// noticeOf returns what an event means to people, "" if nothing. Most events say what the status of the pod
// says, too; those of a Kubernetes Job, such as an exceeded quota, are only here.
func noticeOf(event *corev1.Event) string {
	switch event.Reason {
	case "FailedCreate":
		return "Kubernetes cannot create the pod: " + event.Message
	case "Evicted", "Preempted", "Preempting", "NodeNotReady", "TaintManagerEviction":
		return event.Reason + ": " + event.Message
	case "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox":
		return event.Reason + ": " + event.Message
	case "Scheduled", "Pulling", "Pulled", "TriggeredScaleUp", "NotTriggerScaleUp":
		return event.Message
	}
	return ""
}
