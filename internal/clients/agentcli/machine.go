package agentcli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/supervise"
)

// MachineCommand has what a server runs over SSH on its machines.
func MachineCommand() *cobra.Command {
	group := &cobra.Command{Use: "machine", Short: "Commands that a server runs on machines for hosted agents", Hidden: true}
	folder := group.PersistentFlags().String("folder", "", "folder of agents (default: .stackyard/machines in the home directory)")
	add := func(use, short string, do func(a supervise.Agent, out io.Writer) error) {
		group.AddCommand(&cobra.Command{Use: use + " ID", Short: short, Args: cmdline.Exactly("ID"), RunE: func(cmd *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			a, err := supervise.Of(*folder, args[0], program)
			if err != nil {
				return err
			}
			return do(a, cmd.OutOrStdout())
		}})
	}
	add("start", "Start the agent that standard input describes", func(a supervise.Agent, _ io.Writer) error {
		r, err := supervise.ReadRequest(os.Stdin)
		if err != nil {
			return err
		}
		return a.Start(r)
	})
	add("run", "Run the agent that standard input describes", func(a supervise.Agent, _ io.Writer) error {
		r, err := supervise.ReadRequest(os.Stdin)
		if err != nil {
			return err
		}
		return a.Run(r, os.NewFile(3, "ready"))
	})
	add("socket", "Print the path of the desktop's socket, on which the server will listen", func(a supervise.Agent, out io.Writer) error {
		path, err := a.PrepareSocket()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, path)
		return err
	})
	add("wait", "Wait until an agent has ended, or standard input is closed", func(a supervise.Agent, out io.Writer) error {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			os.Exit(cmdline.ExitFailed) // the server has disconnected
		}()
		result, err := a.Wait()
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(result)
	})
	add("stop", "End an agent and remove its files", func(a supervise.Agent, _ io.Writer) error { return a.Stop() })
	return group
}
