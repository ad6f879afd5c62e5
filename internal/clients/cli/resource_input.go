package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
)

// An input is a flag that sets a field.
type input struct {
	flag, field, usage string
	short              string // one letter
	kind               inputKind
	create, edit       bool // whether the commands have it; neither: both have
	blank              bool // create sends an empty text unless the flag is given
}

type inputKind int

const (
	textInput     inputKind = iota
	onOffInput              // a boolean
	fileInput               // a short text from a file that other users cannot see, or from standard input for -
	documentInput           // the content of a file as it is, or of standard input for -
	spanInput               // a duration from now: a time
	rangesInput             // repeatable: texts joined with spaces
	pairsInput              // KEY=VALUE, repeatable: an object
	listInput               // repeatable: a list of texts
	namesInput              // repeatable: an object with true for each name
)

// addInputs adds the flags of some inputs, and returns a function that returns the fields that were given.
func (res *resource) addInputs(cmd *cobra.Command, wanted func(input) bool) func() (map[string]any, error) {
	flags := cmd.Flags()
	var inputs []input
	for _, in := range res.inputs {
		if !wanted(in) {
			continue
		}
		inputs = append(inputs, in)
		switch in.kind {
		case onOffInput:
			flags.Bool(in.flag, false, in.usage)
		case spanInput:
			flags.Duration(in.flag, 0, in.usage)
		case rangesInput:
			flags.StringSlice(in.flag, nil, in.usage)
		case pairsInput, listInput, namesInput:
			flags.StringArray(in.flag, nil, in.usage)
		default:
			flags.StringP(in.flag, in.short, "", in.usage)
		}
	}
	return func() (map[string]any, error) {
		body := map[string]any{}
		for _, in := range inputs {
			if !flags.Changed(in.flag) {
				continue
			}
			value, err := in.value(cmd)
			if err != nil {
				return nil, err
			}
			body[in.field] = value
		}
		return body, nil
	}
}

// value returns the value of the flag.
func (in input) value(cmd *cobra.Command) (any, error) {
	flags := cmd.Flags()
	texts, _ := flags.GetStringArray(in.flag)
	switch in.kind {
	case onOffInput:
		return flags.GetBool(in.flag)
	case listInput:
		return texts, nil
	case pairsInput:
		given, err := cmdline.Pairs(in.flag, texts)
		values := object{}
		for name, text := range given {
			values[name] = jsonOrText(text)
		}
		return values, err
	case namesInput:
		values := object{}
		for _, name := range texts {
			values[name] = true
		}
		return values, nil
	case spanInput:
		span, err := flags.GetDuration(in.flag)
		return time.Now().Add(span).UTC().Format(time.RFC3339), err
	case rangesInput:
		ranges, err := flags.GetStringSlice(in.flag)
		return strings.Join(ranges, " "), err
	case documentInput:
		return readDocument(cmd, in.flag)
	case fileInput:
		text, err := readSecretFile(cmd, flags.Lookup(in.flag).Value.String())
		if err != nil {
			return nil, cmdline.Usage(fmt.Errorf("--%s: %w", in.flag, err))
		}
		if text == "" {
			return nil, cmdline.Usage(fmt.Errorf("--%s: %w", in.flag, errors.New("the file is empty")))
		}
		return text, nil
	}
	return flags.GetString(in.flag)
}

// readDocument returns the content of the file that a flag names; - is standard input.
func readDocument(cmd *cobra.Command, flag string) (string, error) {
	path := cmd.Flags().Lookup(flag).Value.String()
	if path == "-" {
		text, err := io.ReadAll(cmd.InOrStdin())
		return string(text), err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", cmdline.Usage(fmt.Errorf("--%s: %w", flag, err))
	}
	return string(text), nil
}

// readSecretFile reads a small file, or standard input for -.
func readSecretFile(cmd *cobra.Command, name string) (string, error) {
	const most = 64 << 10
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	content, err := io.ReadAll(io.LimitReader(in, most))
	return strings.TrimSpace(string(content)), err
}

// jsonOrText returns true, false, numbers, lists and objects as JSON values, and all else as a text.
func jsonOrText(text string) any {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return text
	}
	return value
}
