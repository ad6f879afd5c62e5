package tablecopy

import (
	"context"

	"stackyard/internal/platform/db"
)

// Copied are figures of a copy.
type Copied struct {
	Tables int
	Rows   int64
	Chunks int // copied by this call
	Kept   int // chunks that an earlier call copied
}

// Copy copies all tables of an installation that no server uses into an empty database, and compares them. source
// names the installation; a call with the same one continues after an interruption.
func Copy(ctx context.Context, from, to *db.DB, source string) (c Copied, err error) {
	err = ReadAll(ctx, from, func(d *Dump) error {
		load, err := Start(ctx, to, source, d.Versions, d.Tables)
		if err != nil {
			return err
		}
		defer load.Close()
		sums := map[string]Sum{}
		for _, t := range d.Tables {
			skip := load.Loaded(t)
			c.Kept += skip
			sums[t.Name], err = d.Each(t, func(chunk []byte) error {
				if skip > 0 {
					skip--
					return nil
				}
				c.Chunks++
				return load.Add(ctx, t, chunk)
			})
			if err != nil {
				return err
			}
			c.Tables++
			c.Rows += sums[t.Name].Rows
		}
		return load.Finish(ctx, sums)
	})
	return c, err
}
