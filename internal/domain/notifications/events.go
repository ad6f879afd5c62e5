package notifications

// eventNames lists every event that receivers with a list of events can choose. Ping, which is sent when a webhook is
// created or its settings change, can be listed too, although every webhook gets it.
var eventNames = names{
	"ping",
	"build.scheduled", "build.running", "build.failing", "build.finished", "build.skipped",
	"job.scheduled", "job.started", "job.finished", "job.activated", "job.promised_exit_status",
	"agent.connected", "agent.disconnected", "agent.lost", "agent.stopping", "agent.stopped", "agent.blocked",
	"cluster_token.registration_blocked",
}
