package builds

import (
	"maps"
	"slices"
)

// attributes returns what is passed on to agents of a command step, with the defaults of its pipeline. The
// secrets of both are needed; of two for the same variable, agents are told the step's.
func attributes(defaults, own map[string]any) map[string]any {
	all := map[string]any{}
	for _, name := range []string{"image", "checkout", "cache"} {
		if value, ok := defaults[name]; ok {
			all[name] = value
		}
	}
	maps.Copy(all, own)
	if shared, ok := defaults["secrets"]; ok {
		all["secrets"] = append(listed(shared), listed(own["secrets"])...)
	}
	return all
}

// listed returns what was written in place of a list as one.
func listed(written any) []any {
	switch w := written.(type) {
	case nil:
		return nil
	case []any:
		return slices.Clone(w)
	default:
		return []any{w}
	}
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
