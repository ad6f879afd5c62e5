package definition

import "strings"

// A Combination is one job's worth of a matrix.
type Combination struct {
	// Values has a value for each dimension, in their order.
	Values []string
	Skip   Skip
	// SoftFail is nil when that of the step applies.
	SoftFail *SoftFail
}

// Combinations returns what the dimensions make, the last one changing fastest, with the adjustments
// made, and then the combinations that adjustments add, in their order. Of several adjustments of one
// combination, later ones win.
func (m *Matrix) Combinations() []Combination {
	makes := m.makes()
	adjusted := make(map[string]Combination, len(m.Adjustments))
	var added []string
	for _, a := range m.Adjustments {
		key := combinationKey(a.With)
		c, again := adjusted[key]
		if !again && !makes(a.With) {
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

// products yields every list of one value of each dimension.
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

// jobs returns how many jobs the matrix makes, or a number above maxJobs when they are too many: it
// never multiplies beyond that.
func (m *Matrix) jobs() int {
	jobs := 1
	for _, d := range m.Dimensions {
		jobs *= len(d.Values)
		if jobs > maxJobs {
			return jobs
		}
	}
	makes := m.makes()
	added := map[string]bool{}
	for _, a := range m.Adjustments {
		if !makes(a.With) {
			added[combinationKey(a.With)] = true
		}
	}
	return jobs + len(added)
}

// makes returns a function that reports whether the dimensions by themselves make a combination.
func (m *Matrix) makes() func(with []string) bool {
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

// combinationKey returns a text that only equal combinations share: no value contains U+0000.
func combinationKey(values []string) string { return strings.Join(values, "\x00") }
