package agentcli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner/signing"
)

// ToolCommand returns the commands that create keys and sign pipelines.
func ToolCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tool", Short: "Create signing keys, sign pipelines, pin plugins"}
	cmd.AddCommand(keygenCommand(), signCommand(), lockPluginsCommand())
	return cmd
}

func keygenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Create a key pair that signs pipelines",
		Long: `Create a key pair as two files with JSON Web Key Sets. Agents that upload pipelines get
the private one (--signing-jwks-file), agents that run jobs the public one
(--verification-jwks-file). Existing files are not overwritten.`,
		Example: "  stackyard tool keygen --key-id 2026-01",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	algorithm := flags.String("alg", signing.Algorithms()[0], "algorithm: "+strings.Join(signing.Algorithms(), ", "))
	id := flags.String("key-id", "", "id of the key (default: random)")
	privateFile := flags.String("private-jwks-file", "", "file of the private key (default: ALG-ID-private.json)")
	publicFile := flags.String("public-jwks-file", "", "file of the public key (default: ALG-ID-public.json)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *id == "" {
			random := make([]byte, 6)
			rand.Read(random)
			*id = hex.EncodeToString(random)
		}
		if strings.ContainsAny(*id, "/\\") && (*privateFile == "" || *publicFile == "") {
			return cmdline.Usage(errors.New("--key-id has a slash; name the files with --private-jwks-file and --public-jwks-file"))
		}
		private, public, err := signing.Generate(*algorithm, *id)
		if err != nil {
			return cmdline.Usage(fmt.Errorf("--alg: %w", err))
		}
		for _, file := range []struct {
			name, usual string
			text        []byte
			mode        os.FileMode
		}{
			{*privateFile, *algorithm + "-" + *id + "-private.json", private, 0o600},
			{*publicFile, *algorithm + "-" + *id + "-public.json", public, 0o644},
		} {
			if file.name == "" {
				file.name = file.usual
			}
			if err := writeNew(file.name, append(file.text, '\n'), file.mode); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), file.name)
		}
		return nil
	}
	return cmd
}

// writeNew writes a file that must not exist.
func writeNew(name string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func signCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sign [FILE]",
		Short: "Sign the steps of a pipeline's configuration",
		Long: `Print a pipeline file with a signature for each command step, for the configuration of a
pipeline on the server. Steps that jobs upload are signed by their agent instead.
Without FILE the command reads standard input.

A signature holds for one repository, written as in the pipeline's settings.`,
		Example: "  stackyard tool sign pipeline.yml --jwks-file private.json --repo https://git.example.com/web.git",
		Args:    cmdline.AtMost("FILE"),
	}
	flags := cmd.Flags()
	file := flags.String("jwks-file", "", "private keys [SERVICE_AGENT_SIGNING_JWKS_FILE]")
	id := flags.String("jwks-key-id", "", "key of --jwks-file, if it has several [SERVICE_AGENT_SIGNING_JWKS_KEY_ID]")
	repository := flags.String("repo", "", "URL of the pipeline's repository [SERVICE_REPO]")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for variable, value := range map[string]*string{"SERVICE_AGENT_SIGNING_JWKS_FILE": file, "SERVICE_AGENT_SIGNING_JWKS_KEY_ID": id, "SERVICE_REPO": repository} {
			if *value == "" {
				*value = os.Getenv(variable)
			}
		}
		if *file == "" || *repository == "" {
			return cmdline.Usage(errors.New("--jwks-file and --repo are required; create keys with \"stackyard tool keygen\""))
		}
		key, err := readSigningKey(*file, *id)
		if err != nil {
			return fmt.Errorf("--jwks-file: %w", err)
		}
		_, source, err := PipelineSource(cmd.InOrStdin(), args)
		if err != nil {
			return err
		}
		signed, err := signing.SignFile(cmd.Context(), source, key, *repository)
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(signed)
		return err
	}
	return cmd
}
