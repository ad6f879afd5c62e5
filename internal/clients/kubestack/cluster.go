package kubestack

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A Cluster calls the API server of a Kubernetes cluster.
type Cluster struct {
	core, batch, coordination rest.Interface
}

// Load returns the settings for an API server: of a kubeconfig file, or "" for those that a pod has.
func Load(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the API server: %w; outside of a cluster use --kubeconfig", err)
		}
		return config, nil
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// The rate of calls: bursts of jobs must not wait long, and an API server has more clients than this one.
const (
	callsPerSecond = 100
	callsBurst     = 200
)

// NewCluster returns a client for an API server.
func NewCluster(config *rest.Config) (*Cluster, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme)
	client := func(path string, version schema.GroupVersion) (rest.Interface, error) {
		c := rest.CopyConfig(config)
		c.APIPath, c.GroupVersion = path, &version
		c.NegotiatedSerializer = codecs.WithoutConversion()
		c.QPS, c.Burst = callsPerSecond, callsBurst
		c.UserAgent = "stackyard-stack"
		return rest.RESTClientFor(c)
	}
	var cluster Cluster
	for _, group := range []struct {
		client  *rest.Interface
		path    string
		version schema.GroupVersion
	}{
		{&cluster.core, "/api", corev1.SchemeGroupVersion},
		{&cluster.batch, "/apis", batchv1.SchemeGroupVersion},
		{&cluster.coordination, "/apis", coordinationv1.SchemeGroupVersion},
	} {
		c, err := client(group.path, group.version)
		if err != nil {
			return nil, err
		}
		*group.client = c
	}
	return &cluster, nil
}

// createJob creates a Kubernetes Job.
func (c *Cluster) createJob(ctx context.Context, job *batchv1.Job) (*batchv1.Job, error) {
	created := new(batchv1.Job)
	return created, c.batch.Post().Namespace(job.Namespace).Resource("jobs").Body(job).Do(ctx).Into(created)
}

func (c *Cluster) createSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.core.Post().Namespace(secret.Namespace).Resource("secrets").Body(secret).Do(ctx).Error()
}

// patchSecret changes fields of a Secret.
func (c *Cluster) patchSecret(ctx context.Context, namespace, name string, fields any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return c.core.Patch(types.MergePatchType).Namespace(namespace).Resource("secrets").Name(name).Body(body).Do(ctx).Error()
}

func (c *Cluster) deleteSecret(ctx context.Context, namespace, name string) error {
	return c.core.Delete().Namespace(namespace).Resource("secrets").Name(name).Do(ctx).Error()
}

// deleteJob deletes a Kubernetes Job; its pod and Secret follow.
func (c *Cluster) deleteJob(ctx context.Context, namespace, name string) error {
	return c.batch.Delete().Namespace(namespace).Resource("jobs").Name(name).
		Body(&metav1.DeleteOptions{PropagationPolicy: ptr(metav1.DeletePropagationBackground)}).Do(ctx).Error()
}

// deletePod deletes a pod. The grace period is for containers that still run.
func (c *Cluster) deletePod(ctx context.Context, namespace, name string, grace int64) error {
	return c.core.Delete().Namespace(namespace).Resource("pods").Name(name).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &grace}).Do(ctx).Error()
}

// listLimit is the size of a page of a list.
const listLimit = 500

// jobs lists the Kubernetes Jobs with a label selector.
func (c *Cluster) jobs(ctx context.Context, namespace, selector string) ([]batchv1.Job, error) {
	return listAll(func(next string) ([]batchv1.Job, string, error) {
		var page batchv1.JobList
		err := list(ctx, c.batch, "jobs", namespace, selector, next, &page)
		return page.Items, page.Continue, err
	})
}

// secrets lists the Secrets with a label selector.
func (c *Cluster) secrets(ctx context.Context, namespace, selector string) ([]corev1.Secret, error) {
	return listAll(func(next string) ([]corev1.Secret, string, error) {
		var page corev1.SecretList
		err := list(ctx, c.core, "secrets", namespace, selector, next, &page)
		return page.Items, page.Continue, err
	})
}

// list reads one page of a list.
func list(ctx context.Context, client rest.Interface, resource, namespace, selector, next string, page runtime.Object) error {
	return client.Get().Namespace(namespace).Resource(resource).Param("labelSelector", selector).
		Param("limit", strconv.Itoa(listLimit)).Param("continue", next).Do(ctx).Into(page)
}

// listAll reads all pages of a list. read returns the items of a page and where the next one starts, "" after the last.
func listAll[T any](read func(next string) ([]T, string, error)) ([]T, error) {
	var all []T
	for next := ""; ; {
		items, following, err := read(next)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if next = following; next == "" {
			return all, nil
		}
	}
}
