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

// shownWeight is that of what each job shows, its own or not.
func (w *Work) shownWeight() int {
	bytes := len(w.Command) + len(w.ArtifactPaths)
	for _, rule := range w.Agents {
		bytes += len(rule)
	}
	return bytes
}

// attributesWeight is that of attributes in the shapes that JSON has.
func attributesWeight(value any) int {
	bytes := 0
	switch v := value.(type) {
	case string:
		bytes = len(v)
	case []any:
		for _, item := range v {
			bytes += attributesWeight(item)
		}
	case map[string]any:
		for name, item := range v {
			bytes += len(name) + attributesWeight(item)
		}
	default:
		bytes = 8
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
