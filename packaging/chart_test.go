package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write kubernetes/stackyard.yaml")

// minimal are the values that people must set.
const minimal = `
publicURL: https://ci.example.com
database: {secret: stackyard-database}
secretKey: {secret: stackyard-key}
blobs: {url: "s3://stackyard?endpoint=https://s3.example.com&region=eu-1", secret: stackyard-bucket}
serviceMonitor: {enabled: true}
ingress: {enabled: true, tlsSecret: stackyard-tls}
`

// render returns the objects of the server's chart by kind, each as YAML.
func render(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	return renderChart(t, "chart", "stackyard", values)
}

func renderChart(t *testing.T, folder, release, values string) (map[string]string, error) {
	t.Helper()
	chart, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: release, Namespace: "ci", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]string{}
	for name, text := range files {
		if text = strings.TrimSpace(text); text == "" || strings.HasSuffix(name, ".txt") {
			continue
		}
		var object struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		objects[object.Kind] = text
	}
	return objects, nil
}

// decode decodes an object and fails on fields that its kind does not have.
func decode[T any](t *testing.T, objects map[string]string, kind string) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(objects[kind]), &object); err != nil {
		t.Fatalf("%s: %v\n%s", kind, err, objects[kind])
	}
	return object
}

func TestChart_HasObjectsThatKubernetesKnows(t *testing.T) {
	objects, err := render(t, minimal+"organizations: |\n  organizations: [{slug: acme}]\nenv: [{name: STACKYARD_KEEP_EVENTS, value: 48h}]\n")
	if err != nil {
		t.Fatal(err)
	}
	deployment := decode[appsv1.Deployment](t, objects, "Deployment")
	service := decode[corev1.Service](t, objects, "Service")
	budget := decode[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")
	ingress := decode[networkingv1.Ingress](t, objects, "Ingress")
	secret := decode[corev1.Secret](t, objects, "Secret")
	decode[corev1.ServiceAccount](t, objects, "ServiceAccount")

	pod := deployment.Spec.Template
	for what, selector := range map[string]map[string]string{"deployment": deployment.Spec.Selector.MatchLabels, "service": service.Spec.Selector, "budget": budget.Spec.Selector.MatchLabels} {
		for name, value := range selector {
			if pod.Labels[name] != value {
				t.Errorf("the %s selects %s=%s, which pods do not have", what, name, value)
			}
		}
	}
	for _, variable := range []string{"STACKYARD_PUBLIC_URL", "STACKYARD_DATABASE_FILE", "STACKYARD_SECRET_KEY_FILE", "STACKYARD_BLOBS", "STACKYARD_PEER_URL", "STACKYARD_APPLY", "STACKYARD_KEEP_EVENTS"} {
		if !slices.ContainsFunc(pod.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == variable && e.Value != "" }) {
			t.Errorf("%s is not set", variable)
		}
	}
	if ingress.Spec.Rules[0].Host != "ci.example.com" || secret.StringData["organizations.yaml"] != "organizations: [{slug: acme}]" {
		t.Errorf("the ingress is for %s, the organization file is %q", ingress.Spec.Rules[0].Host, secret.StringData["organizations.yaml"])
	}
	if !strings.Contains(objects["ServiceMonitor"], "path: /metrics") {
		t.Errorf("the ServiceMonitor is\n%s", objects["ServiceMonitor"])
	}
}

// The pods satisfy the strictest of the Pod Security Standards.
func TestChart_IsRestricted(t *testing.T) {
	objects, err := render(t, minimal)
	if err != nil {
		t.Fatal(err)
	}
	wantRestricted(t, decode[appsv1.Deployment](t, objects, "Deployment"))
}

func wantRestricted(t *testing.T, deployment appsv1.Deployment) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(restricted, &deployment.Spec.Template.ObjectMeta, &deployment.Spec.Template.Spec) {
		if !result.Allowed {
			t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
}

func TestChart_SaysWhatIsMissing(t *testing.T) {
	for values, want := range map[string]string{
		"":                      "publicURL",
		"{}":                    "database",
		minimal + "replicas: 0": "replicas",
		strings.Replace(minimal, "s3://", "file:///", 1):   "blobs",
		strings.Replace(minimal, "https://ci", "ci", 1):    "publicURL",
		strings.Replace(minimal, "stackyard-key", `""`, 1): "secretKey",
		minimal + "terminationGracePeriodSeconds: 1":       "terminationGracePeriodSeconds",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one about %s", values, err, want)
		}
	}
}

// kubernetes/stackyard.yaml is what the chart gives with the minimal values, for people without Helm.
func TestManifest_IsWhatTheChartGives(t *testing.T) {
	objects, err := render(t, strings.Replace(minimal, "serviceMonitor: {enabled: true}", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	wantManifest(t, "kubernetes/stackyard.yaml", objects, "ServiceAccount", "Service", "Deployment", "PodDisruptionBudget", "Ingress")
}

func wantManifest(t *testing.T, path string, objects map[string]string, kinds ...string) {
	t.Helper()
	var text bytes.Buffer
	fmt.Fprintln(&text, "# Made from the chart: go test . -run TestManifest -update. Change the URLs and the names of the secrets.")
	for _, kind := range kinds {
		fmt.Fprintf(&text, "---\n%s\n", strings.Replace(objects[kind], "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl", -1))
	}
	if *update {
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if committed, err := os.ReadFile(path); err != nil || !bytes.Equal(committed, text.Bytes()) {
		t.Errorf("%s differs (%v): run go test . -run TestManifest -update", path, err)
	}
}
