package buildpages

import (
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/rules/flow"
)

// An answer is what a person entered when unblocking a job.
type answer struct {
	Label string
	Value string
}

// maxAnswers limits the answers on a page.
const maxAnswers = 50

// readAnswers reads what people entered into the fields of jobs that they unblocked.
func (b *board) readAnswers(v *pages.Visit) error {
	left := maxAnswers
	for r := range b.rows() {
		if b.Pipeline.Visited() || r.UnblockedBy == nil && r.State != flow.Unblocked || r.Work.Manual == nil {
			continue
		}
		for _, f := range r.Work.Manual.Fields {
			if left--; left < 0 {
				return nil
			}
			value, ok, err := b.site.Builds.MetaData(v.Context(), b.OrganizationID, b.ID, f.Key)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			for _, o := range f.Options {
				if !f.Multiple && o.Value == value {
					value = o.Label
				}
			}
			label := f.Label
			if label == "" {
				label = f.Key
			}
			r.Answers = append(r.Answers, answer{label, strings.ReplaceAll(value, "\n", ", ")})
		}
	}
	return nil
}
