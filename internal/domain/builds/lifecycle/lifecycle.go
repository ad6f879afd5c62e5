// Package lifecycle creates builds and moves their jobs through their states.
//
// Package flow, which is pure, decides what changes; this package writes what changed (persist.go). Every change to a
// build is one unit of work (unit.go): a transaction that holds the build's row lock. What depends on the states of
// jobs, in this package and in others, is an ordered list of effects in that transaction (effects.go). Consequences
// for other builds, like triggers, are tasks of the transaction and run later in units of their own (followup.go), so
// that no unit waits for a second build.
//
// It does not plan steps (rules/plan), hand out jobs (dispatch) or read for people (builds).
package lifecycle
