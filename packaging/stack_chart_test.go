package main

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// minimalStack are the values that people must set.
const minimalStack = `
endpoint: https://ci.example.com/v3
token: {secret: stackyard-agent-token}
queues: [linux]
networkPolicy: {enabled: true}
`

func TestStackChart_HasObjectsThatKubernetesKnows(t *testing.T) {
	objects, err := renderChart(t, "stack-chart", "stackyard-stack", minimalStack+"templates: {podSpec: {priorityClassName: ci}}\n")
	if err != nil {
		t.Fatal(err)
	}
	deployment := decode[appsv1.Deployment](t, objects, "Deployment")
	role := decode[rbacv1.Role](t, objects, "Role")
	binding := decode[rbacv1.RoleBinding](t, objects, "RoleBinding")
	account := decode[corev1.ServiceAccount](t, objects, "ServiceAccount")
	templates := decode[corev1.ConfigMap](t, objects, "ConfigMap")
	decode[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")
	wantRestricted(t, deployment)
	if binding.RoleRef.Name != role.Name || binding.Subjects[0].Name != account.Name || deployment.Spec.Template.Spec.ServiceAccountName != account.Name {
		t.Errorf("the role %s, its binding and the account %s do not belong together", role.Name, account.Name)
	}
	for _, rule := range role.Rules {
		for _, list := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
			if strings.Contains(strings.Join(list, " "), "*") {
				t.Errorf("the role allows %v", rule)
			}
		}
	}
	if got := templates.Data["templates.yaml"]; !strings.Contains(got, "priorityClassName: ci") {
		t.Errorf("the templates are %q", got)
	}
	if args := strings.Join(deployment.Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(args, "--queue=linux") || strings.Contains(args, "--token=") {
		t.Errorf("the arguments are %s", args)
	}
}

func TestStackChart_SaysWhatIsMissing(t *testing.T) {
	for values, want := range map[string]string{
		"{}": "endpoint",
		strings.Replace(minimalStack, "/v3", "", 1):                     "endpoint",
		strings.Replace(minimalStack, "stackyard-agent-token", `""`, 1): "token",
		minimalStack + "key: Not a name":                                "key",
	} {
		if _, err := renderChart(t, "stack-chart", "stackyard-stack", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one about %s", values, err, want)
		}
	}
}

// kubernetes/stack.yaml is what the chart gives, for people without Helm.
func TestManifest_OfTheStackIsWhatTheChartGives(t *testing.T) {
	objects, err := renderChart(t, "stack-chart", "stackyard-stack", minimalStack)
	if err != nil {
		t.Fatal(err)
	}
	wantManifest(t, "kubernetes/stack.yaml", objects, "ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Deployment", "NetworkPolicy")
}
