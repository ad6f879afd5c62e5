package agentcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/kubestack"
	"stackyard/internal/clients/stackctl"
)

// defaultPodImage has git, a shell and certificates. Debian's maintainers and Docker keep it.
const defaultPodImage = "docker.io/library/buildpack-deps:bookworm-scm"

func stackKubernetesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubernetes",
		Short: "Run a stack: each job as a Kubernetes Job",
		Long: `Run jobs of queues as Kubernetes Jobs. Each pod gets a token for its job only.

A step without an image runs in --image. A step with an image runs its command
there; a second container of the pod checks out, uploads artifacts and reports.
The image needs a shell, nothing else.

The controller can be restarted, updated or killed at any time: pods continue,
and the next controller with the same --key takes over. Of several controllers
with the same key one leads; the others wait.

In a pod of the cluster it uses the pod's service account, elsewhere --kubeconfig.`,
		Example: `  SERVICE_AGENT_TOKEN=svcct_… stackyard stack kubernetes --endpoint https://ci.example.com/v3 \\
    --queue linux --namespace builds --kubeconfig ~/.kube/config`,
		RunE: runKubernetes,
	}
	cmdline.AddFlags(cmd, connectionSettings)
	addStackFlags(cmd, "kubernetes-NAMESPACE", 50)
	flags := cmd.Flags()
	flags.Int("max-pending", 20, "reserve no more jobs while this many pods do not run yet")
	flags.String("namespace", "", "namespace of jobs (default: that of this pod)")
	flags.String("image", defaultPodImage, "image of steps without an image, and of checkouts; it needs git and a shell")
	flags.String("program-image", "", "image with this program (default: stackyard:VERSION)")
	flags.String("templates", "", "file with pod templates for all jobs and for queues (default: none)")
	flags.Duration("start-timeout", 15*time.Minute, "finish jobs whose pod does not start within this time")
	flags.Duration("keep", 10*time.Minute, "keep pods that have ended for this time")
	flags.String("kubeconfig", "", "kubeconfig file (default: the service account of this pod)")
	return cmd
}

func runKubernetes(cmd *cobra.Command, _ []string) error {
	if err := cmdline.HideSecrets(cmd, connectionSettings); err != nil {
		return err
	}
	config, options, err := kubernetesConfig(cmd)
	if err != nil {
		return cmdline.Usage(err)
	}
	kubeconfig, _ := cmd.Flags().GetString("kubeconfig")
	loaded, err := kubestack.Load(kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := kubestack.NewCluster(loaded)
	if err != nil {
		return err
	}
	address, _ := cmd.Flags().GetString("metrics-listen")
	stop, err := measureStack(&config, address)
	if err != nil {
		return err
	}
	defer stop()
	host, _ := os.Hostname()
	lease := &kubestack.Lease{
		Cluster: cluster, Namespace: options.Namespace, Name: "stackyard-stack-" + strings.ToLower(config.Key),
		Holder: host + "-" + strconv.Itoa(os.Getpid()), Log: config.Log,
	}
	return lease.Lead(cmd.Context(), func(ctx context.Context) error {
		compute, err := kubestack.New(ctx, cluster, config.Key, options, config.Log)
		if err != nil {
			return err
		}
		config.Compute, config.Limit = compute, compute.Limit
		return stackctl.New(config).Run(ctx, ctx)
	})
}

// kubernetesConfig parses the command's settings. It returns all errors at once.
func kubernetesConfig(cmd *cobra.Command) (stackctl.Config, kubestack.Options, error) {
	flags := cmd.Flags()
	text := func(flag string) string { return flags.Lookup(flag).Value.String() }
	values, gathered := cmdline.Gather(cmd, connectionSettings, nil)
	problems := []error{gathered}
	o := kubestack.Options{Namespace: text("namespace"), Image: text("image"), ProgramImage: text("program-image")}
	if o.Namespace == "" {
		o.Namespace = podNamespace()
	}
	if o.ProgramImage == "" {
		o.ProgramImage = "stackyard:" + cmdline.Version
	}
	o.MaxPending, _ = flags.GetInt("max-pending")
	o.StartTimeout, _ = flags.GetDuration("start-timeout")
	o.Keep, _ = flags.GetDuration("keep")
	if o.MaxPending < 1 {
		problems = append(problems, errors.New("--max-pending must be at least 1"))
	}
	if o.StartTimeout <= 0 {
		problems = append(problems, errors.New("--start-timeout must be more than 0"))
	}
	if o.Keep < 0 {
		problems = append(problems, errors.New("--keep must not be negative"))
	}
	config, err := commonStackConfig(cmd, values, "kubernetes-"+o.Namespace)
	problems = append(problems, err)
	for _, wrong := range validation.IsDNS1123Label(strings.ToLower(config.Key)) {
		problems = append(problems, fmt.Errorf("--key: %q is part of names in Kubernetes: %s", config.Key, wrong))
	}
	if file := text("templates"); file != "" {
		if o.Templates, err = kubestack.ReadTemplates(file); err != nil {
			problems = append(problems, fmt.Errorf("--templates: %w", err))
		}
	}
	return config, o, errors.Join(problems...)
}

// podNamespace returns the namespace of the pod that this process runs in, "default" elsewhere.
func podNamespace() string {
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if name := strings.TrimSpace(string(text)); err == nil && name != "" {
		return name
	}
	return "default"
}
