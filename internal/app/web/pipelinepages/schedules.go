package pipelinepages

import (
	"net/http"
	"net/url"
	"time"

	"stackyard/internal/app/web/pages"
)

// A schedule is a schedule in a response.
type schedule struct {
	ID       string            `json:"id"`
	Label    string            `json:"label"`
	Cronline string            `json:"cronline"`
	Message  *string           `json:"message"`
	Commit   string            `json:"commit"`
	Branch   string            `json:"branch"`
	Enabled  bool              `json:"enabled"`
	NextAt   *time.Time        `json:"next_build_at"`
	Failed   *string           `json:"failed_message"`
	FailedAt *time.Time        `json:"failed_at"`
	Env      map[string]string `json:"env"`
	Runs     []time.Time
}

// scheduleForm returns the form for a schedule; with the id of an existing one, for that.
func scheduleForm(m managed, sch schedule) pages.Form {
	form := pages.Form{ID: "schedule", Action: m.At("settings", "schedules"), Submit: "Create schedule", Fields: []pages.Field{
		{Name: "cronline", Label: "When", Required: true, Value: sch.Cronline, Placeholder: "0 3 * * 1-5 Europe/Berlin", Hint: "A cron line with an optional time zone, or @hourly, @daily, @weekly, @monthly."},
		{Name: "label", Label: "Label", Null: true, Value: sch.Label, Placeholder: "Nightly"},
		{Name: "branch", Label: "Branch", Kind: pages.PickField, Null: true, Value: sch.Branch, Suggest: m.suggestBranch()},
		{Name: "commit", Label: "Commit", Null: true, Value: sch.Commit, Placeholder: "HEAD"},
		{Name: "message", Label: "Message", Null: true, Value: pages.Text(sch.Message)},
		{Name: "env", Label: "Environment variables", Kind: pages.CodeField, Value: envText(sch.Env), Placeholder: "NAME=value", Hint: envHint},
	}}
	if sch.ID != "" {
		form.Action, form.Submit = m.At("settings", "schedules", sch.ID, "edit"), "Save schedule"
	}
	return form
}

// submitSchedule sends a schedule to the API.
func submitSchedule(v *pages.Visit, form pages.Form, method, target, back, done string, show func(pages.Form) error) error {
	values, err := v.ReadForm()
	if err != nil {
		return err
	}
	body := form.Body(values)
	env, problem := parseEnv(values.Get("env"))
	if problem != "" {
		return show(form.Entered(values, pages.Problems{"env": problem}))
	}
	body["env"] = env
	_, err = v.Call(method, target, body, nil)
	if wrong, ok := pages.RefusedFields(err); ok {
		return show(form.Entered(values, wrong))
	}
	if err != nil {
		return err
	}
	return v.Done(back, done)
}

func (s *Site) schedules(v *pages.Visit, m managed) error {
	return s.showSchedules(v, http.StatusOK, m, scheduleForm(m, schedule{Branch: m.Pipeline.DefaultBranch}))
}

// shownSchedules is for how many schedules the page shows the next runs.
const shownSchedules = 30

func (s *Site) showSchedules(v *pages.Visit, status int, m managed, form pages.Form) error {
	list, err := pages.All[schedule](v, m.api(v, "schedules"))
	if err != nil {
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

func (s *Site) createSchedule(v *pages.Visit, m managed) error {
	return submitSchedule(v, scheduleForm(m, schedule{}), "POST", m.api(v, "schedules"), m.At("settings", "schedules"), "Schedule created.", func(f pages.Form) error {
		return s.showSchedules(v, http.StatusUnprocessableEntity, m, f)
	})
}

// schedule shows the form of a schedule.
func (s *Site) schedule(v *pages.Visit, m managed) error {
	var one schedule
	if _, err := v.Call("GET", m.api(v, "schedules", v.PathValue("schedule")), nil, &one); err != nil {
		return err
	}
	return s.showSchedule(v, http.StatusOK, m, scheduleForm(m, one))
}

func (s *Site) showSchedule(v *pages.Visit, status int, m managed, form pages.Form) error {
	return m.show(v, status, "schedule", "schedules", "Edit schedule", struct {
		managed
		Form pages.Form
	}{m, form})
}

func (s *Site) editSchedule(v *pages.Visit, m managed) error {
	form := scheduleForm(m, schedule{ID: v.PathValue("schedule")})
	return submitSchedule(v, form, "PATCH", m.api(v, "schedules", v.PathValue("schedule")), m.At("settings", "schedules"), "Schedule saved.", func(f pages.Form) error {
		return s.showSchedule(v, http.StatusUnprocessableEntity, m, f)
	})
}

// changeSchedule enables, disables or deletes a schedule.
func (s *Site) changeSchedule(v *pages.Visit, m managed, form url.Values) error {
	one, back := m.api(v, "schedules", v.PathValue("schedule")), m.At("settings", "schedules")
	switch form.Get("do") {
	case "delete":
		return v.Act("DELETE", one, nil, back, "Schedule deleted.")
	case "enable":
		return v.Act("PATCH", one, map[string]any{"enabled": true}, back, "Schedule enabled.")
	}
	return v.Act("PATCH", one, map[string]any{"enabled": false}, back, "Schedule disabled.")
}
