package lifecycle

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/definition"
)

// Unblock unblocks a job for a user. values are those of its step's fields.
func (s *Service) Unblock(ctx context.Context, j *builds.Job, userID string, values map[string]string) error {
	return s.onJob(ctx, j.OrganizationID, j.ID, func(u *unit) error {
		if err := u.checkMutable(); err != nil {
			return err
		}
		by, err := member(u.q, j.OrganizationID, userID)
		if err != nil {
			return err
		}
		if err := u.run.Unblock(j.ID); err != nil {
			return err
		}
		metaData, err := answers(j.Work.Manual.Fields, values)
		if err != nil {
			return err
		}
		if err := setMetaData(u.q, u.build, metaData); err != nil {
			return err
		}
		_, err = u.q.Exec(`UPDATE jobs SET unblocked_by = $2 WHERE id = $1`, j.ID, by)
		return err
	})
}

// member returns the canonical id of a member of an organization.
func member(q *db.Q, orgID, userID string) (string, error) {
	id, ok := core.ParseID(userID)
	if ok {
		var n int
		err := q.QueryRow(`SELECT COUNT(*) FROM memberships WHERE organization_id = $1 AND user_id = $2`, orgID, id).Scan(&n)
		if err != nil {
			return "", err
		}
		ok = n > 0
	}
	if !ok {
		return "", core.Errorf(core.Unprocessable, "The unblocker is not a valid user id for this organization")
	}
	return id, nil
}

// answers checks the values of fields and returns them with defaults.
func answers(fields []definition.Field, values map[string]string) (map[string]string, error) {
	var wrong core.Problems
	checked := make(map[string]string, len(fields))
	for _, f := range fields {
		value, given := values[f.Key]
		// In a field with several options, an empty value means that the person chose none. In other fields it
		// means the default.
		chosen := given && (value != "" || f.Multiple)
		if !chosen {
			value = strings.Join(f.Default, "\n")
		}
		if value == "" {
			if f.Required {
				wrong.Add("fields."+f.Key, "is required")
			} else if chosen {
				checked[f.Key] = ""
			}
			continue
		}
		if problem := problemWith(f, value); problem != "" {
			wrong.Add("fields."+f.Key, "%s", problem)
		}
		checked[f.Key] = value
	}
	return checked, wrong.Err()
}

// problemWith returns what is wrong with the value of a field, or "".
func problemWith(f definition.Field, value string) string {
	if len(value) > metadata.MaxValue {
		return "is too long"
	}
	switch f.Kind {
	case definition.FieldText:
		if f.Format == "" {
			return ""
		}
		format, err := regexp.Compile(`\A(?:` + f.Format + `)\z`)
		if err != nil || !format.MatchString(value) {
			return "must match " + f.Format
		}
	case definition.FieldSelect:
		chosen := []string{value}
		if f.Multiple {
			chosen = strings.Split(value, "\n")
		}
		for _, one := range chosen {
			if !slices.ContainsFunc(f.Options, func(o definition.Option) bool { return o.Value == one }) {
				return "must be one of the values that the step offers"
			}
		}
	}
	return ""
}
