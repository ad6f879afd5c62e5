// Package builds reads builds, jobs and steps: it has their types, lists, filters and counts, the environment of a
// job, and what each caller can see.
//
// Rows that change with every state of a job are narrow. Commands, environments and other texts are stored once
// per step, in rows of their own.
//
// It changes nothing: package lifecycle below it creates builds and moves their jobs. It does not hand out jobs
// (dispatch), keep logs (joblog) or serve REST (buildapi).
package builds
