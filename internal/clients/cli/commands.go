package cli

import "github.com/spf13/cobra"

// Commands returns the commands of the program that call a server.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		loginCommand(), logoutCommand(), whoamiCommand(),
		orgCommand(), clusterCommand(), queueCommand(), imageCommand(), tokenCommand(),
		pipelineCommand(), scheduleCommand(), connectionCommand(), buildCommand(), jobCommand(),
		secrets.group(), members.group(), teams.group(), suites.group(),
		services.group(
			serviceSwitchCommand("enable", "Enable a service, also after its deliveries kept failing", "Enabled"),
			serviceSwitchCommand("disable", "Disable a service", "Disabled"),
		),
		openCommand(),
	}
}

// AgentCommands returns the subcommands of agent that call a server.
func AgentCommands() []*cobra.Command {
	return []*cobra.Command{agentListCommand(), agentViewCommand(), agentStopCommand(), agentPauseCommand(), agentResumeCommand()}
}

// StackCommands returns the subcommands of stack that call a server.
func StackCommands() []*cobra.Command {
	return []*cobra.Command{stackListCommand(), stackDeleteCommand()}
}
