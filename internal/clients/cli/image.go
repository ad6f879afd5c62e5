package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

type agentImage struct {
	ID, Name, Status, Dockerfile string
	ImageRef                     string `json:"image_ref"`
	Version                      int
	LastError                    string `json:"last_build_error"`
	BaseImage                    string `json:"base_image"`
}

func imageCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "image", Short: "Manage agent images of a hosted cluster"}
	cmd.AddCommand(imageListCommand(), imageViewCommand(), imageCreateCommand(), imageEditCommand(), imageDeleteCommand())
	return cmd
}

func imageListCommand() *cobra.Command {
	cmd := addClusterFlag(&cobra.Command{Use: "list", Short: "List the agent images of a cluster"})
	return remoteCommand(cmd, func(r *remote, _ []string) error {
		_, list, err := images(r, cmd)
		if err != nil {
			return err
		}
		return printTable(r, list, "The cluster has no agent images.",
			column[agentImage]{"name", func(i agentImage) string { return i.Name }},
			column[agentImage]{"status", func(i agentImage) string { return i.Status }},
			column[agentImage]{"version", func(i agentImage) string { return strconv.Itoa(i.Version) }},
			column[agentImage]{"image", func(i agentImage) string { return i.ImageRef }},
			column[agentImage]{"id", func(i agentImage) string { return i.ID }},
		)
	})
}

func images(r *remote, cmd *cobra.Command) (cluster, api.List[agentImage], error) {
	c, err := r.cluster(cmd)
	if err != nil {
		return c, api.List[agentImage]{}, err
	}
	list, err := listUnder[agentImage](r, "/clusters/%/agent-images", c.ID)
	return c, list, err
}

// findImage finds an image of the cluster by name or id.
func findImage(r *remote, cmd *cobra.Command, named string) (cluster, agentImage, error) {
	c, list, err := images(r, cmd)
	if err != nil {
		return c, agentImage{}, err
	}
	for _, i := range list.Items {
		if i.Name == named || i.ID == named {
			return c, i, nil
		}
	}
	return c, agentImage{}, fmt.Errorf("the cluster %s has no agent image %q; see stackyard image list", c.Name, named)
}

func printImage(r *remote, got api.Item[agentImage]) error {
	i := got.Value
	lines := []line{{"Name", i.Name}, {"Status", i.Status}, {"Version", strconv.Itoa(i.Version)}, {"Id", i.ID}, {"Base image", strings.TrimPrefix(i.BaseImage, "FROM ")}}
	if i.ImageRef != "" {
		lines = append(lines, line{"Image", i.ImageRef})
	}
	if i.LastError != "" {
		lines = append(lines, line{"Error", i.LastError})
	}
	return printItem(r, got.Raw, lines...)
}

func imageViewCommand() *cobra.Command {
	cmd := addClusterFlag(&cobra.Command{Use: "view NAME", Short: "Show an agent image", Args: cmdline.Exactly("NAME")})
	dockerfile := cmd.Flags().Bool("dockerfile", false, "print only its Dockerfile")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		c, i, err := findImage(r, cmd, args[0])
		if err != nil {
			return err
		}
		got, err := call[agentImage](r, get, nil, "/clusters/%/agent-images/%", c.ID, i.ID)
		if err != nil {
			return err
		}
		if *dockerfile {
			_, err := io.WriteString(cmd.OutOrStdout(), got.Value.Dockerfile)
			return err
		}
		return printImage(r, got)
	})
}

func imageCreateCommand() *cobra.Command {
	cmd := addClusterFlag(&cobra.Command{
		Use:     "create NAME",
		Short:   "Create an agent image from a Dockerfile without FROM",
		Example: `  stackyard image create ruby --dockerfile Dockerfile --cluster Cloud`,
		Args:    cmdline.Exactly("NAME"),
	})
	path := addDockerfileFlag(cmd)
	return remoteCommand(cmd, func(r *remote, args []string) error {
		text, err := readDockerfile(cmd, *path)
		if err != nil {
			return err
		}
		c, err := r.cluster(cmd)
		if err != nil {
			return err
		}
		made, err := call[agentImage](r, post, map[string]string{"name": args[0], "dockerfile": text}, "/clusters/%/agent-images", c.ID)
		if err != nil {
			return err
		}
		return printImage(r, made)
	})
}

func imageEditCommand() *cobra.Command {
	cmd := addClusterFlag(&cobra.Command{
		Use:   "edit NAME",
		Short: "Rename an agent image, or build a new version of it",
		Args:  cmdline.Exactly("NAME"),
	})
	path := addDockerfileFlag(cmd)
	name := cmd.Flags().String("name", "", "new name")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		body := map[string]string{}
		if *name != "" {
			body["name"] = *name
		}
		if *path != "" {
			text, err := readDockerfile(cmd, *path)
			if err != nil {
				return err
			}
			body["dockerfile"] = text
		}
		if len(body) == 0 {
			return cmdline.Usage(fmt.Errorf("nothing to change; give --dockerfile or --name"))
		}
		c, i, err := findImage(r, cmd, args[0])
		if err != nil {
			return err
		}
		changed, err := call[agentImage](r, patch, body, "/clusters/%/agent-images/%", c.ID, i.ID)
		if err != nil {
			return err
		}
		return printImage(r, changed)
	})
}

func imageDeleteCommand() *cobra.Command {
	cmd := addYesFlag(addClusterFlag(&cobra.Command{Use: "delete NAME", Short: "Delete an agent image that no queue uses", Args: cmdline.Exactly("NAME")}))
	return remoteCommand(cmd, func(r *remote, args []string) error {
		c, i, err := findImage(r, cmd, args[0])
		if err != nil {
			return err
		}
		if err := r.confirm("Delete the agent image " + i.Name); err != nil {
			return err
		}
		return r.perform(remove, nil, "Deleted the agent image "+i.Name+".", "/clusters/%/agent-images/%", c.ID, i.ID)
	})
}

func addDockerfileFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("dockerfile", "f", "", "file with the Dockerfile, without FROM; - for standard input")
}

// readDockerfile reads a Dockerfile; without a path it is empty.
func readDockerfile(cmd *cobra.Command, path string) (string, error) {
	switch path {
	case "":
		return "", nil
	case "-":
		text, err := io.ReadAll(cmd.InOrStdin())
		return string(text), err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", cmdline.Usage(err)
	}
	return string(text), nil
}
