package lifecycle

import (
	"errors"
	"fmt"
	"strconv"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A batch is a set of rows that get the same values.
type batch struct {
	ids    []string
	values []any
}

// batches groups rows by the values they get, in order of first appearance.
type batches struct {
	byValues map[string]*batch
	order    []*batch
}

func (b *batches) add(id string, values ...any) {
	switch len(b.order) {
	case 0: // most often the only one
		b.order = append(b.order, &batch{[]string{id}, values})
		return
	case 1:
		if b.byValues == nil {
			b.byValues = map[string]*batch{keyOf(b.order[0].values): b.order[0]}
		}
	}
	key := keyOf(values)
	same := b.byValues[key]
	if same == nil {
		same = &batch{values: values}
		b.byValues[key] = same
		b.order = append(b.order, same)
	}
	same.ids = append(same.ids, id)
}

// keyOf returns a text that is the same for the same values.
func keyOf(values []any) string {
	var key []byte
	for _, value := range values {
		switch v := value.(type) {
		case nil:
			key = append(key, '-')
		case string:
			key = strconv.AppendQuote(key, v)
		case int64:
			key = strconv.AppendInt(key, v, 10)
		case int:
			key = strconv.AppendInt(key, int64(v), 10)
		case bool:
			key = strconv.AppendBool(key, v)
		default:
			key = fmt.Appendf(key, "%#v", v)
		}
		key = append(key, ' ')
	}
	return string(key)
}

// errMoved means that a job changed state during a unit of work: another build scheduled it in their
// concurrency group. The unit is retried.
var errMoved = errors.New("a job moved meanwhile")

// rows checks that a statement changed a number of rows. It returns errMoved otherwise.
func rows(want int) func(affected int64) error {
	return func(affected int64) error {
		if affected != int64(want) {
			return errMoved
		}
		return nil
	}
}

// update writes each batch. Its values are $2 and following.
func (b *batches) update(q *db.Q, table, and, set string) error {
	for _, same := range b.order {
		in, ids := q.In("id", 1, same.ids)
		err := q.LaterIf(rows(len(same.ids)), `UPDATE `+table+` SET `+set+` WHERE `+in+` `+and, append([]any{ids}, same.values...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *unit) updateSteps(steps []*flow.Step) error {
	var alike batches
	for _, s := range steps {
		alike.add(s.ID, db.Text(s.Barrier), db.Text(s.BeforeBarrier), db.Text(s.Uploads), s.UploadCount, db.Text(s.Ahead), s.Replaced,
			s.Phase, db.Text(string(s.Outcome)), s.Jobs, s.Unfinished, s.Failed, s.Canceled,
			s.Unmet, s.Missing, s.FailedDependencies, s.CanceledDependencies, s.Gates, s.Gating)
	}
	return alike.update(u.q, "steps", "", `
		barrier = $2, tally = $3, uploads = $4, upload_count = $5, ahead = $6, replaced = $7,
		phase = $8, outcome = $9, jobs = $10, unfinished = $11, failed = $12, canceled = $13,
		unmet = $14, missing = $15, failed_dependencies = $16, canceled_dependencies = $17, gates = $18, gating = $19`)
}
