// Package kubestack runs the jobs of queues as Kubernetes Jobs. It is a [stackctl.Persistent] compute: pods
// outlive the controller, and the next controller continues them. Of client-go it uses the REST client and the
// informers, not the generated clients, which would double the time to build this program.
package kubestack
