package definition

import "strings"

// A Combination holds the matrix values of one job.
type Combination struct {
	// Values has one value per dimension, in order.
	Values []string
	Skip   Skip
	// SoftFail is nil if the step's applies.
	SoftFail *SoftFail
}

// Combinations returns the product of the dimensions, with the last one changing fastest and with adjustments
// applied, followed by the combinations that adjustments add, in order. If several adjustments change one
// combination, later ones win.
func (m *Matrix) Combinations() []Combination {
	includes := m.includes()
	adjusted := make(map[string]Combination, len(m.Adjustments))
	var added []string
	for _, a := range m.Adjustments {
		key := combinationKey(a.With)
		c, again := adjusted[key]
		if !again && !includes(a.With) {
			added = append(added, key)
		}
		c.Values = a.With
		if a.Skip.On {
			c.Skip = a.Skip
		}
		if a.SoftFail != nil {
			c.SoftFail = a.SoftFail
		}
		adjusted[key] = c
	}

	combinations := make([]Combination, 0, m.jobs())
	for values := range m.products() {
		c := adjusted[combinationKey(values)]
		c.Values = values
		combinations = append(combinations, c)
	}
	for _, key := range added {
		combinations = append(combinations, adjusted[key])
	}
	return combinations
}

// products yields every combination of one value per dimension.
func (m *Matrix) products() func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		at := make([]int, len(m.Dimensions))
		for {
			values := make([]string, len(at))
			for i, d := range m.Dimensions {
				values[i] = d.Values[at[i]]
			}
			if !yield(values) {
				return
			}
			i := len(at) - 1
			for ; i >= 0; i-- {
				if at[i]++; at[i] < len(m.Dimensions[i].Values) {
					break
				}
				at[i] = 0
			}
			if i < 0 {
				return
			}
		}
	}
}

// jobs returns the number of jobs of the matrix, or a number above maxJobs if there are too many. It stops
// multiplying then.
func (m *Matrix) jobs() int {
	jobs := 1
	for _, d := range m.Dimensions {
		jobs *= len(d.Values)
		if jobs > maxJobs {
			return jobs
		}
	}
	includes := m.includes()
	added := map[string]bool{}
	for _, a := range m.Adjustments {
		if !includes(a.With) {
			added[combinationKey(a.With)] = true
		}
	}
	return jobs + len(added)
}

// includes returns a function that reports whether the product of the dimensions includes a combination.
func (m *Matrix) includes() func(with []string) bool {
	values := make([]map[string]bool, len(m.Dimensions))
	for i, d := range m.Dimensions {
		values[i] = make(map[string]bool, len(d.Values))
		for _, v := range d.Values {
			values[i][v] = true
		}
	}
	return func(with []string) bool {
		for i, v := range with {
			if !values[i][v] {
				return false
			}
		}
		return true
	}
}

// combinationKey returns a unique key for a combination: no value contains U+0000.
func combinationKey(values []string) string { return strings.Join(values, "\x00") }
