package builds

// The weight of a job is about how many bytes it takes to keep and to show it beyond what its step
// takes.

// weight is that of what is kept for the job alone.
func (v *variation) weight() int {
	bytes := len(v.Plugins)
	for name, value := range v.Env {
		bytes += len(name) + len(value)
	}
	return bytes
}

// Size is that of what each job shows, its own or not.
func (w *Work) Size() int {
	bytes := len(w.Command) + len(w.ArtifactPaths)
	for _, rule := range w.Agents {
		bytes += len(rule)
	}
	return bytes
}

// valuesWeight is that of the values that a job of a matrix has.
func valuesWeight(matrix any) int {
	switch values := matrix.(type) {
	case string:
		return len(values)
	case map[string]string:
		bytes := 0
		for name, value := range values {
			bytes += len(name) + len(value)
		}
		return bytes
	}
	return 0
}
