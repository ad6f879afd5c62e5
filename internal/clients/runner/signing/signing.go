package signing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/buildkite/go-pipeline"
	"github.com/buildkite/go-pipeline/signature"
	"github.com/buildkite/go-pipeline/warning"
	"github.com/buildkite/interpolate"
	"github.com/gowebpki/jcs"
	"gopkg.in/yaml.v3"

	"stackyard/internal/clients/runner/environ"
)

// Sign signs the command steps of a pipeline, which is JSON with all variables filled in. Signatures hold for jobs of
// one repository.
func Sign(ctx context.Context, document json.RawMessage, key Key, repository string) (json.RawMessage, error) {
	p, err := sign(ctx, document, key, repository)
	if err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

// SignFile signs the command steps of a YAML file, for the configuration of a pipeline. The server fills in variables
// after that, so that there must be none.
func SignFile(ctx context.Context, document []byte, key Key, repository string) ([]byte, error) {
	names, err := interpolate.Identifiers(string(document))
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("the file has variables ($%s), which the server replaces and so breaks signatures; remove them, or sign with \"agent pipeline upload\"", strings.Join(names, ", $"))
	}
	p, err := sign(ctx, document, key, repository)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(p); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

func sign(ctx context.Context, document []byte, key Key, repository string) (*pipeline.Pipeline, error) {
	if repository == "" {
		return nil, errors.New("signatures hold for one repository, which is not known")
	}
	p, err := pipeline.Parse(bytes.NewReader(document))
	if err != nil && warning.As(err) == nil {
		return nil, fmt.Errorf("read pipeline: %w", err)
	}
	if err := signature.SignSteps(ctx, p.Steps, key, repository, signature.WithEnv(p.Env.ToMap())); err != nil {
		return nil, fmt.Errorf("sign pipeline: %w", err)
	}
	return p, nil
}

// ErrUnsigned means that a step has no signature.
var ErrUnsigned = errors.New("the step has no signature")

// A Job is what an agent was given to run.
type Job struct {
	Step   json.RawMessage     // the step as the pipeline defines it, with its signature
	Matrix map[string]string   // the values of this job; the only dimension of a simple matrix has no name
	Env    environ.Environment // the variables that the agent runs the job with
}

// Verify checks that one of the keys signed the step, and that the job does what the step says. It returns ErrUnsigned
// if there is no signature.
func Verify(ctx context.Context, j Job, keys Keys) error {
	if len(j.Step) == 0 {
		return ErrUnsigned
	}
	var step pipeline.CommandStep
	if err := json.Unmarshal(j.Step, &step); err != nil {
		return fmt.Errorf("read the step: %w", err)
	}
	if step.Signature == nil {
		return ErrUnsigned
	}
	if err := signature.VerifyStep(ctx, &step, keys, j.Env.Service("REPO"), signature.WithEnv(j.Env)); err != nil {
		return fmt.Errorf("the signature does not match the step and the repository: %w", err)
	}
	if err := step.InterpolateMatrixPermutation(j.Matrix); err != nil {
		return fmt.Errorf("the matrix values are not those of the signed step: %w", err)
	}
	return compare(&step, j.Env)
}

// compare checks that the variables which make up a job are those of its verified step. The library has checked
// variables of the pipeline against the job's.
func compare(step *pipeline.CommandStep, env environ.Environment) error {
	if step.Command != env.Service("COMMAND") {
		return errors.New("the command is not that of the signed step")
	}
	for name, value := range step.Env {
		if got, ok := env[name]; !ok || got != value {
			return fmt.Errorf("the variable %s is not that of the signed step", name)
		}
	}
	signed, err := json.Marshal(step.Plugins)
	if err != nil {
		return err
	}
	same, err := equalPlugins(string(signed), env.Service("PLUGINS"))
	if err != nil || !same {
		return errors.New("the plugins are not those of the signed step")
	}
	return nil
}

func equalPlugins(a, b string) (bool, error) {
	var canonical [2]string
	for i, text := range []string{a, b} {
		if text = strings.TrimSpace(text); text == "" || text == "null" || text == "[]" {
			continue
		}
		form, err := jcs.Transform([]byte(text))
		if err != nil {
			return false, err
		}
		canonical[i] = string(form)
	}
	return canonical[0] == canonical[1], nil
}
