package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/api"
)

type cluster = api.Cluster

var clusters = &resource{
	noun: "cluster", about: "clusters", path: "/clusters", arg: "NAME", names: []string{"name"},
	columns: fields("name", "id", "description"),
	lines:   fields("name Name", "description Description", "created_at Created", "created_by.name Created by", "default_queue_id Default queue", "web_url Page", "id Id"),
	inputs: []input{
		{flag: "name", field: "name", usage: "name", edit: true},
		{flag: "description", field: "description", usage: "description"},
		{flag: "default-queue-id", field: "default_queue_id", usage: "id of the queue of jobs that name none", edit: true},
	},
	creates: "name",
}

var queueResource = &resource{
	noun: "queue", about: "queues of a cluster", none: "The cluster has no queues.", path: "/queues", cluster: true, arg: "KEY", names: []string{"key"},
	columns: []shown{{title: "key", path: "key"}, {title: "state", text: queueState}, {title: "id", path: "id"}, {title: "description", path: "description"}},
	lines:   fields("key Key", "description Description", "dispatch_paused Paused", "dispatch_paused_note Note", "connection_state Stacks", "hosted_agents.instance_shape.name Machine", "created_at Created", "web_url Page", "id Id"),
	inputs: []input{
		{flag: "description", field: "description", usage: "description"},
		{flag: "retry-agent-affinity", field: "retry_agent_affinity", usage: "which agent a retried job prefers: prefer-warmest or prefer-different"},
	},
	creates: "key",
}

// queueState says whether a queue hands out jobs, and what kind of queue it is.
func queueState(r *remote, o object) string {
	state := "open"
	if o["dispatch_paused"] == true {
		state = "paused"
		if note := r.text(o, "dispatch_paused_note"); note != "" {
			state += " (" + note + ")"
		}
	}
	if o["hosted"] == true {
		state += ", hosted"
	}
	if id := r.text(o, "id"); id == r.inCluster.DefaultQueueID {
		state += ", default"
	}
	return state
}

func queueCommand() *cobra.Command {
	pause := &cobra.Command{Use: "pause", Short: "Pause a queue: hand out no jobs"}
	note := pause.Flags().String("note", "", "reason, shown to others")
	return queueResource.group(
		queueResource.action(pause, func(r *remote, one string, o object) error {
			if err := r.Do(r.ctx, post, one+"/pause_dispatch", map[string]string{"dispatch_paused_note": *note}, nil); err != nil {
				return err
			}
			return r.println("Paused " + r.text(o, "key") + ".")
		}),
		queueResource.action(&cobra.Command{Use: "resume", Short: "Resume a paused queue"}, func(r *remote, one string, o object) error {
			if err := r.Do(r.ctx, post, one+"/resume_dispatch", nil, nil); err != nil {
				return err
			}
			return r.println("Resumed " + r.text(o, "key") + ".")
		}),
	)
}

var tokens = &resource{
	noun: "token", called: "agent token", about: "agent tokens of a cluster", none: "The cluster has no agent tokens.", path: "/tokens", cluster: true, arg: "TOKEN", names: []string{"description"},
	columns: fields("id", "description", "created_at created", "expires_at expires", "allowed_ip_addresses from"),
	lines:   fields("description Description", "token Token", "created_at Created", "created_by.name Created by", "expires_at Expires", "allowed_ip_addresses From", "id Id"),
	inputs: []input{
		{flag: "description", field: "description", usage: "description", edit: true},
		{flag: "expires-in", field: "expires_at", usage: "lifetime, such as 720h (default: no expiry)", kind: spanInput, create: true},
		{flag: "allow", field: "allowed_ip_addresses", usage: "address range the token can be used from, repeatable (default: any)", kind: rangesInput},
	},
	creates: "description", createShort: "Create an agent token; its value is shown once",
	deletes: "Revoke", deleteShort: "Revoke an agent token",
	example: map[string]string{"create": `  stackyard token create "build machines" --expires-in 720h`},
}

var stacks = &resource{
	noun: "stack", about: "stacks that are registered with a cluster", none: "The cluster has no stacks.", path: "/stacks", cluster: true, arg: "KEY", names: []string{"key"},
	columns: fields("key", "state", "cluster_queue_key queue", "reserved_jobs_count reserved", "type", "last_connected_on last call", "id"),
	lines:   fields("key Key", "state State", "type Type", "cluster_queue_key Queue", "reserved_jobs_count Reserved jobs", "metadata Metadata", "registered_at Registered", "last_connected_on Last call", "id Id"),
	deletes: "De-register", deleteShort: "De-register a stack",
	long: map[string]string{"delete": `De-register a stack that is dead or no longer needed. Others can take its reserved
jobs at once; jobs that its agents run continue. A stack that is still running can
register again.`},
}

var images = &resource{
	noun: "image", called: "agent image", about: "agent images of a hosted cluster", none: "The cluster has no agent images.", path: "/agent-images", cluster: true, arg: "NAME", names: []string{"name"},
	columns: fields("name", "status", "version", "image_ref image", "id"),
	lines: []shown{
		{title: "Name", path: "name"}, {title: "Status", path: "status"}, {title: "Version", path: "version"}, {title: "Id", path: "id"},
		{title: "Base image", text: func(r *remote, o object) string { return strings.TrimPrefix(r.text(o, "base_image"), "FROM ") }},
		{title: "Image", path: "image_ref"}, {title: "Error", path: "last_build_error"}, {title: "Page", path: "web_url"},
	},
	inputs: []input{
		{flag: "name", field: "name", usage: "new name", edit: true},
		{flag: "dockerfile", short: "f", field: "dockerfile", usage: "file with the Dockerfile, without FROM; - for standard input", kind: documentInput, blank: true},
	},
	creates: "name", createShort: "Create an agent image from a Dockerfile without FROM", deleteShort: "Delete an agent image that no queue uses",
	document: "dockerfile",
	example: map[string]string{
		"create": `  stackyard image create ruby --dockerfile Dockerfile --cluster Cloud`,
		"view":   `  stackyard image view ruby --cluster Cloud --dockerfile > Dockerfile`,
	},
}

// imageLogCommand prints the log of an image's last build.
func imageLogCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Print the log of the last build of an agent image"}
	follow := cmd.Flags().BoolP("follow", "f", false, "keep printing until the build ends")
	return images.action(cmd, func(r *remote, one string, _ object) error {
		log, err := r.Stream(r.ctx, fmt.Sprintf("%s/log?follow=%t", one, *follow), "text/plain")
		if err != nil {
			return err
		}
		defer log.Close()
		_, err = io.Copy(r.out, log)
		return err
	})
}
