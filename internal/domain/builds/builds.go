// Package builds keeps builds and their jobs: how they are made, how they move, and what the REST API
// says and does about them.
//
// Three ideas carry it. What follows from what is not decided here: flow decides, and this room feeds
// it with rows and writes down what changed (flowstore.go, persist.go). Everything that happens to a
// build is one unit of work (unit.go): it holds the build's lock, and the build, its steps and its jobs
// change in one transaction or not at all. And what one build means for another, a trigger step for the
// build that it starts, an older build of a branch for a newer one, is done in units of its own
// afterwards (followup.go), so that no unit ever waits for a second build; it is a task of the unit that
// caused it, so no crash keeps it from being done.
//
// Rows that every move of a job rewrites are narrow. What is written once, such as commands and
// environments, stands in rows beside them, and once for all the jobs of a step.
//
// What happens because time has passed is tasks too: jobs that run for too long or that nobody starts
// (time.go), and builds that have been kept for long enough (retention.go).
//
// Handing jobs to agents is not here, nor are logs. Agents will move jobs with the calls of moves.go.
package builds
