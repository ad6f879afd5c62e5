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
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"golang.org/x/term"

	"stackyard/internal/app/server"
	"stackyard/internal/domain/agentimages"
)

// A setting comes from a flag, the environment or a file, in this order.
type setting struct {
	flag     string
	variable string // empty: derived from the flag
	unset    string // the default
	usage    string
	secret   bool // also read from the file of NAME_FILE
	fileFlag bool // a secret that also has a flag --FLAG-file
	storage  bool // also a setting of apply
	onOff    bool // boolean; the flag alone means true
	list     bool // repeatable; values are separated by commas
}

var serverSettings = []setting{
	{flag: "listen", unset: "127.0.0.1:8080", usage: "address to listen on; port 0 picks a free port"},
	{flag: "public-url", usage: "base URL of the server (default: from --listen)"},
	{flag: "content-url", usage: "another origin of this server for artifacts in browsers, for example https://content.example.com (default: --public-url)"},
	{flag: "data", unset: "./data", usage: "directory of the SQLite database, logs, artifacts and generated keys", storage: true},
	{flag: "database", usage: "postgres://… for PostgreSQL (default: SQLite in --data)", secret: true, storage: true},
	{flag: "blobs", usage: "file://… or s3://bucket?endpoint=…&region=… for logs and artifacts, credentials from AWS_… (default: a directory in --data)"},
	{flag: "secret-key", usage: "32 bytes in hex or base64 that encrypt stored secrets, the same on every replica (default with SQLite: generated into --data; required with PostgreSQL)", secret: true, storage: true},
	{flag: "tls-cert", usage: "certificate file, to serve https directly"},
	{flag: "tls-key", usage: "key file of --tls-cert"},
	{flag: "trusted-proxies", usage: "address ranges whose X-Forwarded-For is trusted, comma-separated"},
	{flag: "apply", usage: "organization file to apply before listening"},
	{flag: "outbound-allow", usage: "private address ranges that webhooks and other user-given URLs may reach, comma-separated"},
	{flag: "peer-url", usage: "URL at which other replicas reach this one (default: the address of this machine in the database's network, and the port of --listen)"},
	{flag: "session-grace", unset: "5m", usage: "time that open shells and desktops have to end after SIGTERM"},
	{flag: "agent-lost-after", unset: "3m", usage: "time without contact after which an agent is lost, at least 15s"},
	{flag: "keep-events", unset: "720h", usage: "how long events are kept for notifications, at least 48h"},
	{flag: "deregister-stacks-after", unset: "24h", usage: "time without contact after which a stack is de-registered, at least 10m"},
	{flag: "oidc-issuer", usage: "URL of an OpenID Connect provider for sign-in"},
	{flag: "oidc-client-id", usage: "client id at --oidc-issuer; its redirect URI is PUBLIC-URL/login/oidc/callback"},
	{flag: "oidc-client-secret", usage: "client secret at --oidc-issuer, if it requires one", secret: true},
	{flag: "chat-oauth-client-id", usage: "client id of an application at a chat, with which people connect chat workspaces; its redirect URI is PUBLIC-URL/settings/connect/callback"},
	{flag: "chat-oauth-client-secret", usage: "client secret of --chat-oauth-client-id", secret: true},
	{flag: "chat-oauth-authorize-url", usage: "where people authorize that application (default: Slack)"},
	{flag: "chat-oauth-token-url", usage: "where the server gets its tokens (default: Slack)"},
	{flag: "chat-oauth-revoke-url", usage: "where the server revokes its tokens (default: Slack, unless --chat-oauth-token-url is given)"},
	{flag: "chat-api-url", usage: "where chat_workspace services post messages (default: Slack; required with --chat-oauth-token-url)"},
	{flag: "tracker-oauth-client-id", usage: "client id of an application at an issue tracker; its redirect URI is PUBLIC-URL/settings/connect/callback"},
	{flag: "tracker-oauth-client-secret", usage: "client secret of --tracker-oauth-client-id", secret: true},
	{flag: "tracker-oauth-authorize-url", usage: "where people authorize that application (default: Linear)"},
	{flag: "tracker-oauth-token-url", usage: "where the server gets its tokens (default: Linear)"},
	{flag: "tracker-oauth-revoke-url", usage: "where the server revokes its tokens (default: Linear, unless --tracker-oauth-token-url is given)"},
	{flag: "tracker-api-url", usage: "GraphQL endpoint of tracker services (default: Linear; required with --tracker-oauth-token-url)"},
	{flag: "event-bus-endpoint", usage: "URL that event_bus services put events to instead of Amazon EventBridge"},
	{flag: "event-bus-access-key-id", usage: "AWS access key that puts events (default: AWS_… variables, shared credentials file, or the role of the machine)"},
	{flag: "event-bus-secret-access-key", usage: "secret of --event-bus-access-key-id", secret: true},
	{flag: "pipeline-visibility-url", usage: "URL of the API that observability_pipeline_visibility services send to instead of the vendor's site"},
	{flag: "hosted-provider", unset: "none", usage: "local runs the agents of hosted queues on this server; none leaves their jobs waiting"},
	{flag: "hosted-max", unset: strconv.Itoa(runtime.NumCPU()), usage: "how many hosted agents run at once on this server"},
	{flag: "hosted-warm", unset: "0", usage: "how many containers of each hosted queue wait for jobs"},
	{flag: "agent-images", unset: "on", usage: "on or off: whether this installation builds images for hosted agents"},
	{flag: "agent-base-image", unset: agentimages.DefaultBaseImage, usage: "image that all agent images start from"},
	{flag: "agent-image-registry", usage: "registry and path that agent images are pushed to, for example registry.example.com/agents; http:// for one without TLS (default: they stay in --data)"},
	{flag: "agent-image-timeout", unset: "15m", usage: "how long building an agent image may take"},
	{flag: "agent-image-memory", unset: "4096", usage: "how much memory building an agent image may use, in megabytes"},
	{flag: "log-format", usage: "text or json (default: text on a terminal, else json)"},
}

func (s setting) env() string {
	if s.variable != "" {
		return s.variable
	}
	return "STACKYARD_" + strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_"))
}

// addSettings adds the flags of settings and --config to a command.
func addSettings(cmd *cobra.Command, settings []setting) {
	addFlags(cmd, settings)
	cmd.Flags().String("config", "", "YAML file with settings by flag name [STACKYARD_CONFIG]")
}

// addFlags adds the flags of settings to a command.
func addFlags(cmd *cobra.Command, settings []setting) {
	flags := cmd.Flags()
	for _, s := range settings {
		usage := s.usage + " [" + s.env() + "]"
		switch {
		case s.list:
			flags.StringArray(s.flag, nil, usage)
		case s.onOff:
			flags.Bool(s.flag, false, usage)
		default:
			flags.String(s.flag, s.unset, usage)
		}
		if s.fileFlag {
			flags.String(s.flag+"-file", "", "file that contains the value of --"+s.flag+" ["+s.env()+"_FILE]")
		}
	}
	flags.SortFlags = false
}

// storageSettings returns the settings that locate an installation's data.
func storageSettings() []setting {
	return slices.DeleteFunc(slices.Clone(serverSettings), func(s setting) bool { return !s.storage })
}

// gather returns the values of settings. It returns all errors at once.
func gather(cmd *cobra.Command, settings []setting) (map[string]string, error) {
	file, errs := readConfig(cmd)
	values := make(map[string]string)
	for _, s := range settings {
		value, err := s.find(cmd, file)
		if err != nil {
			errs = append(errs, err)
		}
		values[s.flag] = value
	}
	return values, errors.Join(errs...)
}

// find returns a setting's value: flag, then environment, then file, then default.
func (s setting) find(cmd *cobra.Command, file map[string]string) (string, error) {
	flag := cmd.Flags().Lookup(s.flag)
	if list, ok := flag.Value.(pflag.SliceValue); ok && flag.Changed {
		return strings.Join(list.GetSlice(), ","), nil
	}
	if flag.Changed {
		return flag.Value.String(), nil
	}
	if s.fileFlag {
		if name := s.flag + "-file"; cmd.Flags().Changed(name) {
			return readSecret("--"+name, cmd.Flags().Lookup(name).Value.String())
		}
	}
	if v := os.Getenv(s.env()); v != "" {
		return v, nil
	}
	if path := os.Getenv(s.env() + "_FILE"); s.secret && path != "" {
		return readSecret(s.env()+"_FILE", path)
	}
	if v, ok := file[s.flag]; ok {
		return v, nil
	}
	return s.unset, nil
}

// readSecret reads the secret of a setting from a file.
func readSecret(setting, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", setting, err)
	}
	return strings.TrimSpace(string(text)), nil
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
		if !slices.ContainsFunc(serverSettings, func(s setting) bool { return s.flag == key.Value }) {
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

// logFormat returns the given format, or the default for standard error.
func logFormat(given string) string {
	switch {
	case given != "":
		return given
	case term.IsTerminal(int(os.Stderr.Fd())):
		return "text"
	default:
		return "json"
	}
}

// parse converts values to server settings.
func parse(values map[string]string) (server.Settings, error) {
	return server.ParseSettings(func(flag string) string { return values[flag] })
}

// refuse marks err as an error in settings or a file, for the exit status. A missing file counts too.
func refuse(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}
