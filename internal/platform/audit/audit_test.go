package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestDiff_ShowsWhatChanged(t *testing.T) {
	for name, c := range map[string]struct {
		before, after Fields
		want          string
	}{
		"nothing":           {Fields{{Name: "a", Value: 1}}, Fields{{Name: "a", Value: 1}}, `[]`},
		"empty and missing": {Fields{{Name: "a", Value: ""}}, nil, `[]`},
		"changed":           {Fields{{Name: "a", Value: "x"}}, Fields{{Name: "a", Value: "y"}}, `[{"field":"a","before":"x","after":"y"}]`},
		"added":             {nil, Fields{{Name: "a", Value: true}}, `[{"field":"a","before":null,"after":true}]`},
		"removed":           {Fields{{Name: "a", Value: []any{"x"}}}, nil, `[{"field":"a","before":["x"],"after":null}]`},
		"a secret":          {Fields{{Name: "a", Value: "x", Secret: true}}, Fields{{Name: "a", Value: "y", Secret: true}}, `[{"field":"a","before":"[hidden]","after":"[hidden]"}]`},
		"now a secret":      {Fields{{Name: "a", Value: "x"}}, Fields{{Name: "a", Value: "y", Secret: true}}, `[{"field":"a","before":"[hidden]","after":"[hidden]"}]`},
		"not text":          {nil, Fields{{Name: "a", Value: "x\x00\xff"}}, `[{"field":"a","before":null,"after":"x` + "\uFFFD\uFFFD" + `"}]`},
	} {
		got, err := json.Marshal(diff(c.before, c.after))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, c.want, err)
		}
	}
}

func TestDiff_IsBounded(t *testing.T) {
	var many Fields
	for i := range 10_000 {
		many = append(many, Field{Name: fmt.Sprint("field", i), Value: strings.Repeat("<", 1000)})
	}
	many = append(Fields{{Name: "large", Value: strings.Repeat("\"", 10<<20)}, {Name: "object", Value: map[string]any{"x": strings.Repeat("y", 10<<20)}}}, many...)
	got, err := json.Marshal(diff(nil, many))
	if err != nil || len(got) > 8*maxChanges {
		t.Errorf("%d bytes, error %v", len(got), err)
	}
	if !strings.Contains(string(got), "more fields") || !strings.Contains(string(got), "bytes in all") {
		t.Errorf("the record does not say what is missing")
	}
}
