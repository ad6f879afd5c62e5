// Package jobusage keeps what the processes of a job used: CPU time, memory, disk and network, as its agent reported.
//
// Agents report it once, before they finish the job. Published agents do not report it.
package jobusage

import (
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Usage is what a job used. Agents send it, and the REST API shows it, in the same form. A missing value is not known.
type Usage struct {
	Source          string `json:"source" doc:"What counted: cgroup (all processes), or rusage (processes that were waited for)."`
	CPUUser         *int64 `json:"cpu_user_microseconds" doc:"CPU time of the programs."`
	CPUSystem       *int64 `json:"cpu_system_microseconds" doc:"CPU time of the kernel for them."`
	PeakMemory      *int64 `json:"peak_memory_bytes" doc:"The most memory at once; with rusage, of the largest process."`
	DiskRead        *int64 `json:"disk_read_bytes"`
	DiskWritten     *int64 `json:"disk_written_bytes"`
	NetworkReceived *int64 `json:"network_received_bytes" doc:"Of the whole machine while the job ran; null if the agent runs several jobs at once."`
	NetworkSent     *int64 `json:"network_sent_bytes"`
}

// most limits each value.
const most = 1 << 60

// columns are the numbers in the order of the table.
func (u *Usage) columns() []**int64 {
	return []**int64{&u.CPUUser, &u.CPUSystem, &u.PeakMemory, &u.DiskRead, &u.DiskWritten, &u.NetworkReceived, &u.NetworkSent}
}

// Check returns an error for the caller if a value is impossible.
func (u *Usage) Check() error {
	if u.Source != "cgroup" && u.Source != "rusage" {
		return core.Errorf(core.Unprocessable, "source must be cgroup or rusage")
	}
	for _, n := range u.columns() {
		if *n != nil && (**n < 0 || **n > most) {
			return core.Errorf(core.Unprocessable, "a usage must be from 0 to %d, not %d", int64(most), **n)
		}
	}
	return nil
}

// CPU returns the whole CPU time in microseconds, or nil.
func (u *Usage) CPU() *int64 {
	if u.CPUUser == nil || u.CPUSystem == nil {
		return nil
	}
	sum := *u.CPUUser + *u.CPUSystem
	return &sum
}

// Set stores what a job used, instead of what was stored before.
func Set(q *db.Q, jobID string, u Usage) error {
	args := []any{jobID, u.Source}
	for _, n := range u.columns() {
		args = append(args, *n)
	}
	_, err := q.Exec(`
		INSERT INTO job_usage (job_id, source, cpu_user, cpu_system, peak_memory, disk_read, disk_written, network_received, network_sent)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (job_id) DO UPDATE SET source = excluded.source, cpu_user = excluded.cpu_user, cpu_system = excluded.cpu_system,
			peak_memory = excluded.peak_memory, disk_read = excluded.disk_read, disk_written = excluded.disk_written,
			network_received = excluded.network_received, network_sent = excluded.network_sent`, args...)
	return err
}

// Of returns what jobs used, by id. The caller may see the jobs.
func Of(q *db.Q, jobIDs ...string) (map[string]*Usage, error) {
	if len(jobIDs) == 0 {
		return nil, nil
	}
	in, arg := q.In("job_id", 1, jobIDs)
	rows, err := q.Query(`
		SELECT job_id, source, cpu_user, cpu_system, peak_memory, disk_read, disk_written, network_received, network_sent
		FROM job_usage WHERE `+in, arg)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]*Usage{}
	for rows.Next() {
		var id string
		u := &Usage{}
		to := []any{&id, &u.Source}
		for _, n := range u.columns() {
			to = append(to, n)
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		found[id] = u
	}
	return found, rows.Err()
}
