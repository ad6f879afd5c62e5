package plan

import (
	"maps"
	"slices"

	"stackyard/internal/rules/definition"
)

// attributes returns the attributes of a command step that agents read, with the defaults of the pipeline. Secrets of
// both are kept; the step's come last, so they win when both set the same variable.
func attributes(defaults, own map[string]any) map[string]any {
	merged := map[string]any{}
	for _, name := range []string{"image", "checkout", "cache"} {
		if value, ok := defaults[name]; ok {
			merged[name] = value
		}
	}
	maps.Copy(merged, own)
	if shared, ok := defaults["secrets"]; ok {
		merged["secrets"] = append(asList(shared), asList(own["secrets"])...)
	}
	return merged
}

// withNotify returns the members of a group with the group's notifications before their own.
func withNotify(members []definition.Step, shared any) []definition.Step {
	if shared == nil {
		return members
	}
	members = slices.Clone(members)
	for i := range members {
		own := maps.Clone(members[i].Attributes)
		if own == nil {
			own = map[string]any{}
		}
		own["notify"] = append(asList(shared), asList(own["notify"])...)
		members[i].Attributes = own
	}
	return members
}

// asList returns a value as a list. A single value becomes a list of one.
func asList(value any) []any {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		return slices.Clone(v)
	default:
		return []any{v}
	}
}

// attributesWeight returns the weight of attributes, which are JSON values.
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
