package plan

// The weight of a job is about the number of bytes that it takes to store and show the job, besides what its step takes.

// weight is the weight of what is stored for the job alone.
func (v *Variation) weight() int {
	bytes := len(v.Plugins)
	for name, value := range v.Env {
		bytes += len(name) + len(value)
	}
	return bytes
}

// Size returns about how many bytes responses show of the work for each job.
func (w *Work) Size() int {
	bytes := len(w.Command) + len(w.ArtifactPaths)
	for _, rule := range w.Agents {
		bytes += len(rule)
	}
	return bytes
}

// valuesWeight is the weight of the matrix values of a job.
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
