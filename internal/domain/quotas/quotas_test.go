package quotas

import (
	"encoding/json"
	"reflect"
	"testing"

	"stackyard/internal/platform/identity"
)

func TestOf_UsesDefaultsForMissingLimits(t *testing.T) {
	for _, stored := range []string{"", "{}", `{"build_retention_days": 7}`} {
		l := Of(&identity.Organization{Limits: json.RawMessage(stored)})
		if l.Stacks != 30 || l.RESTRequestsPerSecond != 1000 || l.TriggeredBuilds != 500 || l.FairShare.On {
			t.Errorf("limits %q: got %+v", stored, l)
		}
	}
	if l := Of(nil); !reflect.DeepEqual(l, Default) {
		t.Errorf("no organization: got %+v", l)
	}
}

func TestEncode_IsReadByOf(t *testing.T) {
	want := Limits{
		Stacks: 5, StackRequestsPerSecond: map[string]int{"show-job": 7}, BuildRetentionDays: 90, TriggeredBuilds: 0,
		FairShare: FairShare{On: true, Weights: map[string]int{"deploy": 3}},
	}
	if got := Of(&identity.Organization{Limits: want.Encode()}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestApplyTo_KeepsTheLimitsWhenNothingChanges(t *testing.T) {
	stored := `{ "stacks": 30 }`
	org := identity.Organization{Limits: json.RawMessage(stored)}
	thirty := 30
	Spec{Stacks: &thirty}.ApplyTo(&org)
	if string(org.Limits) != stored {
		t.Errorf("limits are %s", org.Limits)
	}
}
