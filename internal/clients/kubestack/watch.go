package kubestack

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// An observed is what is known about the Kubernetes objects of one job. Zero fields are not known.
type observed struct {
	pod       *corev1.Pod
	job       *batchv1.Job
	jobGone   bool
	notices   []string // of events, oldest first
	changed   chan struct{}
	followers int
}

// A watcher keeps what is known about the jobs of a stack: those that have objects, and those that are followed.
type watcher struct {
	mu   sync.Mutex
	jobs map[string]*observed // by job of the server
}

// maxEventNotices limits the notices of events that wait to be read.
const maxEventNotices = 20

// at returns what is known about a job. The caller holds mu.
func (w *watcher) at(jobID string) *observed {
	o := w.jobs[jobID]
	if o == nil {
		o = &observed{changed: make(chan struct{}, 1)}
		w.jobs[jobID] = o
	}
	return o
}

// forget removes a job of which nothing is left. The caller holds mu.
func (w *watcher) forget(jobID string) {
	if o := w.jobs[jobID]; o != nil && o.followers == 0 && o.pod == nil && (o.job == nil || o.jobGone) {
		delete(w.jobs, jobID)
	}
}

// follow returns a channel that gets a value after what is known about a job has changed. Call unfollow when it
// is no longer needed.
func (w *watcher) follow(jobID string) (changed <-chan struct{}, unfollow func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.at(jobID)
	o.followers++
	return o.changed, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		o.followers--
		w.forget(jobID)
	}
}

// state returns what is known about a job, and takes the notices of its events.
func (w *watcher) state(jobID string) observed {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.jobs[jobID]
	if o == nil {
		return observed{}
	}
	state := *o
	o.notices = nil
	return state
}

// update changes what is known about a job.
func (w *watcher) update(jobID string, change func(*observed)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.at(jobID)
	change(o)
	select {
	case o.changed <- struct{}{}:
	default:
	}
	w.forget(jobID)
}

// pending returns how many of the followed jobs have no container that runs.
func (w *watcher) pending() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.jobs {
		if o.followers > 0 && (o.pod == nil || !statusOf(o.pod).started) {
			n++
		}
	}
	return n
}

// resync is how often informers repeat what they know, in case a change was missed.
const resync = 10 * time.Minute

// run watches pods, Kubernetes Jobs and events until ctx is done. It returns when the first lists are read.
func (w *watcher) run(ctx context.Context, c *Cluster, namespace, stack string) error {
	selector := managedLabel + "=" + managedBy + "," + stackLabel + "=" + stack
	labeled := func(o *metav1.ListOptions) { o.LabelSelector = selector }
	synced := []cache.InformerSynced{
		watch(ctx, c.core, "pods", namespace, &corev1.Pod{}, labeled, w.podChanged),
		watch(ctx, c.batch, "jobs", namespace, &batchv1.Job{}, labeled, w.jobChanged),
		watch(ctx, c.core, "events", namespace, &corev1.Event{}, func(*metav1.ListOptions) {}, w.eventChanged),
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("read pods, jobs and events of the namespace %s: %w", namespace, ctx.Err())
	}
	return nil
}

// watch calls changed for each object of a kind that is added, changed or deleted.
func watch[T runtime.Object](ctx context.Context, client rest.Interface, resource, namespace string, kind T, options func(*metav1.ListOptions), changed func(T, bool)) cache.InformerSynced {
	list := cache.NewFilteredListWatchFromClient(client, resource, namespace, options)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: list, ObjectType: kind, ResyncPeriod: resync,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { changed(object.(T), false) },
			UpdateFunc: func(_, object any) { changed(object.(T), false) },
			DeleteFunc: func(object any) {
				if lost, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = lost.Obj
				}
				if object, ok := object.(T); ok {
					changed(object, true)
				}
			},
		},
	})
	go informer.RunWithContext(ctx)
	return informer.HasSynced
}

func (w *watcher) podChanged(pod *corev1.Pod, deleted bool) {
	w.update(pod.Labels[jobLabel], func(o *observed) {
		if o.pod = pod; deleted {
			o.pod = nil
		}
	})
}

func (w *watcher) jobChanged(job *batchv1.Job, deleted bool) {
	w.update(job.Labels[jobLabel], func(o *observed) { o.job, o.jobGone = job, deleted })
}

// nameLength is the length of the names of Kubernetes Jobs; names of pods begin with them.
var nameLength = len(objectName("00000000-0000-0000-0000-000000000000"))

func (w *watcher) eventChanged(event *corev1.Event, deleted bool) {
	name := event.InvolvedObject.Name
	if deleted || len(name) < nameLength || name[:len(objectName(""))] != objectName("") {
		return
	}
	if notice := noticeOf(event); notice != "" {
		w.update(name[len(objectName("")):nameLength], func(o *observed) {
			if o.followers > 0 && len(o.notices) < maxEventNotices {
				o.notices = append(o.notices, notice)
			}
		})
	}
}
