// Package dispatch hands jobs to agents.
//
// What can be handed out is a table of its own, runnable: one narrow row for each command job that is
// scheduled, written in the transaction in which the job becomes so, and removed in the one in which it
// stops being so (runnable.go). Finding the best job never looks at anything else, so it costs the same
// however many builds there have been.
//
// What a job asks of its agent is its queue and a set of rules (rules.go). Sets are named by a hash of
// the rules: jobs that ask for the same are found together in the index.
package dispatch
