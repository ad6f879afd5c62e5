package cmdline

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// A Setting comes from a flag, the environment or a file, in this order.
type Setting struct {
	Flag     string
	Variable string // empty: derived from the flag
	Unset    string // the default
	Usage    string
	Secret   bool // also read from the file of NAME_FILE
	FileFlag bool // a secret that also has a flag --FLAG-file
	Storage  bool // locates the data of an installation
	OnOff    bool // boolean; the flag alone means true
	List     bool // repeatable; values are separated by commas
}

func (s Setting) env() string {
	if s.Variable != "" {
		return s.Variable
	}
	return "STACKYARD_" + strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_"))
}

// AddFlags adds the flags of settings to a command.
func AddFlags(cmd *cobra.Command, settings []Setting) {
	flags := cmd.Flags()
	for _, s := range settings {
		usage := s.Usage + " [" + s.env() + "]"
		switch {
		case s.List:
			flags.StringArray(s.Flag, nil, usage)
		case s.OnOff:
			flags.Bool(s.Flag, false, usage)
		default:
			flags.String(s.Flag, s.Unset, usage)
		}
		if s.FileFlag {
			flags.String(s.Flag+"-file", "", "file that contains the value of --"+s.Flag+" ["+s.env()+"_FILE]")
		}
	}
	flags.SortFlags = false
}

// Gather returns the values of settings by flag; file has values from a file and may be nil. It returns all errors at
// once.
func Gather(cmd *cobra.Command, settings []Setting, file map[string]string) (map[string]string, error) {
	var errs []error
	values := make(map[string]string)
	for _, s := range settings {
		value, err := s.Find(cmd, file)
		if err != nil {
			errs = append(errs, err)
		}
		values[s.Flag] = value
	}
	return values, errors.Join(errs...)
}

// Find returns a setting's value: flag, then environment, then file, then default.
func (s Setting) Find(cmd *cobra.Command, file map[string]string) (string, error) {
	flag := cmd.Flags().Lookup(s.Flag)
	if list, ok := flag.Value.(pflag.SliceValue); ok && flag.Changed {
		return strings.Join(list.GetSlice(), ","), nil
	}
	if flag.Changed {
		return flag.Value.String(), nil
	}
	if s.FileFlag {
		if name := s.Flag + "-file"; cmd.Flags().Changed(name) {
			return readSecret("--"+name, cmd.Flags().Lookup(name).Value.String())
		}
	}
	if v := os.Getenv(s.env()); v != "" {
		return v, nil
	}
	if path := os.Getenv(s.env() + "_FILE"); s.Secret && path != "" {
		return readSecret(s.env()+"_FILE", path)
	}
	if v, ok := file[s.Flag]; ok {
		return v, nil
	}
	return s.Unset, nil
}

// readSecret reads the secret of a setting from a file.
func readSecret(setting, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", setting, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// NewLogger returns a logger to standard error of messages from a level on: debug, info, warn or error, by default info.
// The format is text or json, by default text on a terminal, else json.
func NewLogger(format, level string) (*slog.Logger, error) {
	var least slog.Level
	if level != "" {
		if err := least.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("--log-level: %q is none of debug, info, warn and error", level)
		}
	}
	if format == "" {
		format = "json"
		if term.IsTerminal(int(os.Stderr.Fd())) {
			format = "text"
		}
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, options)), nil
	default:
		return nil, fmt.Errorf("--log-format: %q is neither text nor json", format)
	}
}
