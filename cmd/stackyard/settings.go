package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"stackyard/internal/app/server"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/domain/agentimages"
)

var serverSettings = []cmdline.Setting{
	{Flag: "listen", Unset: "127.0.0.1:8080", Usage: "address to listen on; port 0 picks a free port"},
	{Flag: "public-url", Usage: "base URL of the server (default: from --listen)"},
	{Flag: "content-url", Usage: "another origin of this server for artifacts in browsers, for example https://content.example.com (default: --public-url)"},
	{Flag: "data", Unset: "./data", Usage: "directory of the SQLite database, logs, artifacts and generated keys", Storage: true},
	{Flag: "database", Usage: "postgres://… for PostgreSQL (default: SQLite in --data)", Secret: true, Storage: true},
	{Flag: "blobs", Usage: "file://… or s3://bucket?endpoint=…&region=… for logs and artifacts, credentials from AWS_… (default: a directory in --data)"},
	{Flag: "secret-key", Usage: "32 bytes in hex or base64 that encrypt stored secrets, the same on every replica (default with SQLite: generated into --data; required with PostgreSQL)", Secret: true, Storage: true},
	{Flag: "tls-cert", Usage: "certificate file, to serve https directly"},
	{Flag: "tls-key", Usage: "key file of --tls-cert"},
	{Flag: "tls-autocert", Usage: "host names, comma-separated, for which certificates are obtained and renewed automatically, to serve https directly; the first one is the default of --public-url"},
	{Flag: "tls-autocert-email", Usage: "contact address for the certificate authority"},
	{Flag: "tls-autocert-directory", Usage: "directory URL of another ACME certificate authority (default: Let's Encrypt)"},
	{Flag: "redirect-listen", Usage: "address on which http is redirected to https and HTTP-01 challenges are answered, for example :80"},
	{Flag: "trusted-proxies", Usage: "address ranges whose X-Forwarded-For is trusted, comma-separated"},
	{Flag: "apply", Usage: "organization file to apply before listening"},
	{Flag: "outbound-allow", Usage: "private address ranges that webhooks and other user-given URLs may reach, comma-separated"},
	{Flag: "peer-url", Usage: "URL at which other replicas reach this one (default: the address of this machine in the database's network, and the port of --listen)"},
	{Flag: "session-grace", Unset: "5m", Usage: "time that open shells and desktops have to end after SIGTERM"},
	{Flag: "agent-lost-after", Unset: "3m", Usage: "time without contact after which an agent is lost, at least 15s"},
	{Flag: "database-wait", Unset: "1m", Usage: "how long the start waits for a PostgreSQL that does not answer"},
	{Flag: "keep-events", Unset: "720h", Usage: "how long events are kept for notifications, at least 48h"},
	{Flag: "deregister-stacks-after", Unset: "24h", Usage: "time without contact after which a stack is de-registered, at least 10m"},
	{Flag: "oidc-issuer", Usage: "URL of an OpenID Connect provider for sign-in"},
	{Flag: "oidc-client-id", Usage: "client id at --oidc-issuer; its redirect URI is PUBLIC-URL/login/oidc/callback"},
	{Flag: "oidc-client-secret", Usage: "client secret at --oidc-issuer, if it requires one", Secret: true},
	{Flag: "chat-oauth-client-id", Usage: "client id of an application at a chat, with which people connect chat workspaces; its redirect URI is PUBLIC-URL/settings/connect/callback"},
	{Flag: "chat-oauth-client-secret", Usage: "client secret of --chat-oauth-client-id", Secret: true},
	{Flag: "chat-oauth-authorize-url", Usage: "where people authorize that application (default: Slack)"},
	{Flag: "chat-oauth-token-url", Usage: "where the server gets its tokens (default: Slack)"},
	{Flag: "chat-oauth-revoke-url", Usage: "where the server revokes its tokens (default: Slack, unless --chat-oauth-token-url is given)"},
	{Flag: "chat-api-url", Usage: "where chat_workspace services post messages (default: Slack; required with --chat-oauth-token-url)"},
	{Flag: "tracker-oauth-client-id", Usage: "client id of an application at an issue tracker; its redirect URI is PUBLIC-URL/settings/connect/callback"},
	{Flag: "tracker-oauth-client-secret", Usage: "client secret of --tracker-oauth-client-id", Secret: true},
	{Flag: "tracker-oauth-authorize-url", Usage: "where people authorize that application (default: Linear)"},
	{Flag: "tracker-oauth-token-url", Usage: "where the server gets its tokens (default: Linear)"},
	{Flag: "tracker-oauth-revoke-url", Usage: "where the server revokes its tokens (default: Linear, unless --tracker-oauth-token-url is given)"},
	{Flag: "tracker-api-url", Usage: "GraphQL endpoint of tracker services (default: Linear; required with --tracker-oauth-token-url)"},
	{Flag: "event-bus-endpoint", Usage: "URL that event_bus services put events to instead of Amazon EventBridge"},
	{Flag: "event-bus-access-key-id", Usage: "AWS access key that puts events (default: AWS_… variables, shared credentials file, or the role of the machine)"},
	{Flag: "event-bus-secret-access-key", Usage: "secret of --event-bus-access-key-id", Secret: true},
	{Flag: "pipeline-visibility-url", Usage: "URL of the API that observability_pipeline_visibility services send to instead of the vendor's site"},
	{Flag: "hosted-provider", Unset: "none", Usage: "local runs the agents of hosted queues on this server, remote on the machines of --hosted-machines; none leaves their jobs waiting"},
	{Flag: "hosted-machines", Usage: "YAML file that lists the machines of --hosted-provider remote"},
	{Flag: "hosted-max", Unset: strconv.Itoa(runtime.NumCPU()), Usage: "how many hosted agents run at once on this server, with --hosted-provider local"},
	{Flag: "hosted-grace", Unset: "5m", Usage: "time that jobs of hosted agents on this server have to end after SIGTERM"},
	{Flag: "hosted-warm", Unset: "0", Usage: "how many containers of each hosted queue wait for jobs"},
	{Flag: "agent-images", Unset: "on", Usage: "on or off: whether this installation builds images for hosted agents"},
	{Flag: "agent-base-image", Unset: agentimages.DefaultBaseImage, Usage: "image that all agent images start from"},
	{Flag: "agent-image-registry", Usage: "registry and path that agent images are pushed to, for example registry.example.com/agents; http:// for one without TLS (default: they stay in --data)"},
	{Flag: "agent-image-timeout", Unset: "15m", Usage: "how long building an agent image may take"},
	{Flag: "agent-image-memory", Unset: "4096", Usage: "how much memory building an agent image may use, in megabytes"},
	{Flag: "metrics-listen", Usage: "address of metrics and profiles, for example 127.0.0.1:9090 (default: /metrics on --listen, without names of queues)"},
	{Flag: "metrics-token", Usage: "bearer token that /metrics on --listen asks for, at least 16 characters", Secret: true},
	{Flag: "otel-endpoint", Usage: "URL of an OpenTelemetry collector that traces of this server are sent to over OTLP/HTTP, for example http://127.0.0.1:4318 (default: OTEL_EXPORTER_OTLP_ENDPOINT, or none)"},
	{Flag: "otel-headers", Usage: "headers for --otel-endpoint: NAME=VALUE, comma-separated (default: OTEL_EXPORTER_OTLP_HEADERS)", Secret: true},
	{Flag: "otel-sample", Usage: "share of requests and tasks that are traced, from 0 to 1 (default: OTEL_TRACES_SAMPLER and its argument, or 0.1)"},
	{Flag: "agent-image-disk", Unset: "20480", Usage: "how much disk space building an agent image may use, with the copy of its base image, in megabytes"},
	{Flag: "log-format", Usage: "text or json (default: text on a terminal, else json)"},
	{Flag: "log-level", Unset: "info", Usage: "least level of logged messages: debug, info, warn or error; requests are info"},
}

// addSettings adds the flags of settings and --config to a command.
func addSettings(cmd *cobra.Command, settings []cmdline.Setting) {
	cmdline.AddFlags(cmd, settings)
	cmd.Flags().String("config", "", "YAML file with settings by flag name [STACKYARD_CONFIG]")
}

// storageSettings returns the settings that locate an installation's data.
func storageSettings() []cmdline.Setting {
	return slices.DeleteFunc(slices.Clone(serverSettings), func(s cmdline.Setting) bool { return !s.Storage })
}

// gather returns the values of settings. It returns all errors at once.
func gather(cmd *cobra.Command, settings []cmdline.Setting) (map[string]string, error) {
	file, errs := readConfig(cmd)
	values, err := cmdline.Gather(cmd, settings, file)
	return values, errors.Join(append(errs, err)...)
}

// readConfig reads the file of --config. The file may contain every setting of serve, so that all commands can
// share it.
func readConfig(cmd *cobra.Command) (map[string]string, []error) {
	flag := cmd.Flags().Lookup("config")
	if flag == nil {
		return nil, nil
	}
	path := flag.Value.String()
	if path == "" {
		path = os.Getenv("STACKYARD_CONFIG")
	}
	if path == "" {
		return nil, nil
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, []error{fmt.Errorf("--config: %w", err)}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return nil, []error{fmt.Errorf("--config %s: %w", path, err)}
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, []error{fmt.Errorf("--config %s: line %d: expected settings by flag name", path, top.Line)}
	}
	values := make(map[string]string)
	var errs []error
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, node := top.Content[i], top.Content[i+1]
		if !slices.ContainsFunc(serverSettings, func(s cmdline.Setting) bool { return s.Flag == key.Value }) {
			errs = append(errs, fmt.Errorf("--config %s: line %d: unknown setting %q", path, key.Line, key.Value))
			continue
		}
		var list []string
		_, twice := values[key.Value]
		switch {
		case twice:
			errs = append(errs, fmt.Errorf("--config %s: line %d: %s is given twice", path, key.Line, key.Value))
		case node.Kind == yaml.ScalarNode:
			values[key.Value] = node.Value
		case node.Decode(&list) == nil:
			values[key.Value] = strings.Join(list, ",")
		default:
			errs = append(errs, fmt.Errorf("--config %s: line %d: %s must be a text", path, key.Line, key.Value))
		}
	}
	return values, errs
}

// parse converts values to server settings.
func parse(values map[string]string) (server.Settings, error) {
	return server.ParseSettings(func(flag string) string { return values[flag] })
}
