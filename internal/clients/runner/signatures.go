package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"stackyard/internal/clients/runner/signing"
)

// verify checks the signature of the step before anything of it runs. It returns a refusal if the agent must not run
// the job.
func (j *job) verify() error {
	keys := j.w.o.VerifyKeys
	if keys == nil {
		if j.spec.Step.Signed() {
			return &refusal{signatureRejected, "The step is signed, and this agent has no key to verify signatures with (--verification-jwks-file)."}
		}
		return nil
	}
	matrix := make(map[string]string, len(j.spec.Matrix))
	for dimension, value := range j.spec.Matrix {
		matrix[dimension] = fmt.Sprint(value)
	}
	err := signing.Verify(j.ctx, signing.Job{Step: j.spec.Step.Definition, Matrix: matrix, Env: j.sh.Env}, keys)
	switch {
	case err == nil:
		j.verified = true
		return nil
	case errors.Is(err, signing.ErrUnsigned) && j.w.o.AllowNoSign:
		j.sh.Warning("The step has no signature; this agent runs it nevertheless (--unsigned-jobs warn)")
		return nil
	case errors.Is(err, signing.ErrUnsigned):
		return &refusal{signatureRejected, "The step has no signature, and this agent runs signed steps only. Sign it with \"stackyard tool sign\", or upload it from an agent with --signing-jwks-file."}
	}
	return &refusal{signatureRejected, "The signature of the step was rejected: " + err.Error() + ". The step, its variables or its repository were changed after it was signed, or the agent does not know the key."}
}

// signer returns what signs pipelines that the job uploads, or nil. A job that was not verified itself gets no
// signatures from an agent that verifies: one unsigned job could sign everything else.
func (j *job) signer() func(context.Context, json.RawMessage) (json.RawMessage, error) {
	o := j.w.o
	if o.SigningKey == nil {
		return nil
	}
	return func(ctx context.Context, pipeline json.RawMessage) (json.RawMessage, error) {
		if o.VerifyKeys != nil && !j.verified {
			return nil, errors.New("this job has no signature itself, so its agent signs nothing for it")
		}
		// The repository of the job as the server sent it, which its script cannot change.
		return signing.Sign(ctx, pipeline, o.SigningKey, j.repository)
	}
}
