// Package builds creates builds and moves their jobs through their states.
//
// Package flow, which is pure, decides what changes; this package loads the rows that flow needs (flowstore.go)
// and writes back what changed (persist.go). Every change to a build is one unit of work (unit.go): a
// transaction that holds the build's row lock. What depends on the states of jobs, in this package and in
// others, is an ordered list of effects in that transaction (effects.go). Consequences for other builds, like
// triggers, are tasks of the transaction and run later in units of their own (followup.go), so that no unit
// waits for a second build.
//
// Rows that change with every state of a job are narrow. Commands, environments and other texts are stored once
// per step, in rows of their own.
//
// It does not hand out jobs (dispatch), plan steps (rules/plan), keep logs (joblog) or serve REST (buildapi).
package builds
