package buildpages

import (
	"fmt"

	"stackyard/internal/domain/builds"
	"stackyard/internal/rules/flow"
)

// exitMeanings explain exit statuses that mean the same in most shells.
var exitMeanings = map[int]string{
	1:   "The command reported an error. Look at the end of the log.",
	2:   "The command reported an error; shells and many tools use 2 for wrong arguments or a syntax error.",
	124: "A timeout within the command ended it.",
	125: "A container or a wrapper could not start the command.",
	126: "The command was found but cannot be executed. Check that the file is executable.",
	127: "The command was not found. Check its name and that it is installed on the agent.",
	128: "The command ended with an invalid exit status, or Git failed.",
	255: "The command reported an error; ssh uses 255 if the connection fails.",
	-1:  "The process did not report an exit status: it was stopped, or its agent was lost.",
}

// signalMeanings explain signals, by their name and by the number in an exit status above 128.
var signalMeanings = map[string]string{
	"SIGHUP":  "its terminal was closed",
	"SIGINT":  "it was interrupted",
	"SIGQUIT": "it was told to quit",
	"SIGILL":  "it ran an invalid instruction, for example of another kind of processor",
	"SIGABRT": "it aborted itself, for example after a failed assertion",
	"SIGFPE":  "it made an arithmetic error, such as dividing by zero",
	"SIGKILL": "it was killed; often the machine or container ran out of memory",
	"SIGBUS":  "it accessed memory that does not exist, or a disk is full",
	"SIGSEGV": "it accessed memory that it may not (a crash)",
	"SIGPIPE": "it wrote to a program that had already ended",
	"SIGTERM": "it was told to stop, for example by a timeout, a cancellation or a stopping machine",
}

var signalNumbers = map[int]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM"}

// signalReasons explain why the agent reports a signal.
var signalReasons = map[string]string{
	"cancel":             "The job was canceled.",
	"agent_stop":         "The agent was stopped while the job ran.",
	"agent_lost":         "The agent disappeared while the job ran.",
	"agent_refused":      "The agent refused to run the job.",
	"agent_incompatible": "The agent cannot run jobs of this kind.",
	"process_run_error":  "The agent could not start the job's process.",
	"signature_rejected": "The agent rejected the signature of the job.",
	"stack_error":        "A stack could not provide an agent.",
}

// ExitText explains how a job's process ended, in plain words; "" if it succeeded or has not ended.
func ExitText(j *builds.Job) string {
	if j.Type != flow.Script || j.ExitStatus == nil || *j.ExitStatus == 0 {
		return ""
	}
	if text := signalReasons[j.SignalReason]; text != "" {
		return text
	}
	status := *j.ExitStatus
	signal := j.Signal
	if signal == "" && status > 128 {
		signal = signalNumbers[status-128]
	}
	if meaning := signalMeanings[signal]; meaning != "" {
		return fmt.Sprintf("The process was ended by %s: %s.", signal, meaning)
	}
	if signal != "" {
		return fmt.Sprintf("The process was ended by %s.", signal)
	}
	if text := exitMeanings[status]; text != "" {
		return text
	}
	return "The command reported an error with an exit status of its own. Look at the end of the log."
}
