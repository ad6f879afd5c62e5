package pipelines

import (
	"encoding/json"
	"testing"

	"stackyard/internal/platform/core"
)

// FuzzTeamLevels checks that any accepted input yields UUIDs with access levels, and that these can be sent
// again as an object.
func FuzzTeamLevels(f *testing.F) {
	const id = "0190c0de-0000-7000-8000-0000000000e1"
	f.Add(`["` + id + `"]`)
	f.Add(`[{"id":"` + id + `","access_level":"read_only"},{"uuid":"` + id + `"}]`)
	f.Add(`{"` + id + `":"build_and_read"}`)
	f.Add(`null`)
	f.Add(`"x"`)
	f.Add(`[[null,{}]]`)
	f.Fuzz(func(t *testing.T, text string) {
		var read teamLevels
		if json.Unmarshal([]byte(text), &read) != nil {
			return
		}
		for id, level := range read {
			if canonical, ok := core.ParseID(id); !ok || canonical != id || !level.Valid() {
				t.Errorf("%q with %q", id, level)
			}
		}
		sent, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		var again teamLevels
		if err := json.Unmarshal(sent, &again); err != nil || len(again) != len(read) {
			t.Errorf("%s reads as %v: %v", sent, again, err)
		}
	})
}
