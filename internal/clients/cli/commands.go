package cli

import "github.com/spf13/cobra"

// Commands returns the commands of the program that call a server.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		loginCommand(), logoutCommand(), whoamiCommand(),
		orgCommand(), clusters.group(), queueCommand(), images.group(imageLogCommand()), tokens.group(),
		pipelineCommand(), scheduleCommand(), connections.group(connectionTestCommand()), buildCommand(), jobCommand(), artifactCommand(),
		secrets.group(), members.group(), teams.group(), suites.group(), services.group(serviceCommands()...),
		auditCommand(),
		openCommand(),
	}
}

// AgentCommands returns the subcommands of agent that call a server.
func AgentCommands() []*cobra.Command {
	return append(agents.commands(), agentActions()...)
}

// StackCommands returns the subcommands of stack that call a server.
func StackCommands() []*cobra.Command {
	return stacks.commands()
}
