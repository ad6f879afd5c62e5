package pipelinepages

import (
	"net/http"
	"net/url"
	"time"

	"stackyard/internal/app/web/pages"
)

// A schedule is a schedule in a response.
type schedule struct {
	ID       string     `json:"id"`
	Label    string     `json:"label"`
	Cronline string     `json:"cronline"`
	Message  *string    `json:"message"`
	Commit   string     `json:"commit"`
	Branch   string     `json:"branch"`
	Enabled  bool       `json:"enabled"`
	NextAt   *time.Time `json:"next_build_at"`
	Failed   *string    `json:"failed_message"`
	FailedAt *time.Time `json:"failed_at"`
	Runs     []time.Time
}

func scheduleForm(m managed) pages.Form {
	return pages.Form{ID: "schedule", Action: m.At("settings", "schedules"), Submit: "Create schedule", Fields: []pages.Field{
		{Name: "cronline", Label: "When", Required: true, Placeholder: "0 3 * * 1-5 Europe/Berlin", Hint: "A cron line with an optional time zone, or @hourly, @daily, @weekly, @monthly."},
		{Name: "label", Label: "Label", Null: true, Placeholder: "Nightly"},
		{Name: "branch", Label: "Branch", Null: true, Value: m.Pipeline.DefaultBranch},
		{Name: "message", Label: "Message", Null: true},
	}}
}

func (s *Site) schedules(v *pages.Visit) error {
	m, err := s.load(v)
	if err != nil {
		return err
	}
	return s.showSchedules(v, http.StatusOK, m, scheduleForm(m))
}

// shownSchedules is for how many schedules the page shows the next runs.
const shownSchedules = 30

func (s *Site) showSchedules(v *pages.Visit, status int, m managed, form pages.Form) error {
	var list []schedule
	if _, err := v.Call("GET", m.api(v, "schedules")+"?per_page=100", nil, &list); err != nil {
		return err
	}
	for i := range list[:min(len(list), shownSchedules)] {
		var next struct {
			Runs []time.Time `json:"runs"`
		}
		if !list[i].Enabled {
			continue
		}
		if _, err := v.Call("GET", m.api(v, "schedules", "preview")+"?"+url.Values{"cronline": {list[i].Cronline}}.Encode(), nil, &next); err != nil {
			return err
		}
		list[i].Runs = next.Runs[:min(len(next.Runs), 3)]
	}
	return m.show(v, status, "schedules", "schedules", "Schedules", struct {
		managed
		Schedules []schedule
		New       pages.Form
	}{m, list, form})
}

func (s *Site) createSchedule(v *pages.Visit) error {
	m, err := s.load(v)
	if err != nil {
		return err
	}
	return v.Submit(scheduleForm(m), "POST", m.api(v, "schedules"), m.At("settings", "schedules"), "Schedule created.", func(f pages.Form) error {
		return s.showSchedules(v, http.StatusUnprocessableEntity, m, f)
	})
}

// changeSchedule enables, disables or deletes a schedule.
func (s *Site) changeSchedule(v *pages.Visit) error {
	m, err := s.load(v)
	if err != nil {
		return err
	}
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	one, back := m.api(v, "schedules", v.PathValue("schedule")), m.At("settings", "schedules")
	switch form.Get("do") {
	case "delete":
		return v.Act("DELETE", one, nil, back, "Schedule deleted.")
	case "enable":
		return v.Act("PATCH", one, map[string]any{"enabled": true}, back, "Schedule enabled.")
	}
	return v.Act("PATCH", one, map[string]any{"enabled": false}, back, "Schedule disabled.")
}
