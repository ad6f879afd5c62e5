package agents

import (
	"testing"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/seal"
)

func TestJobToken_ReportsWhatItWasIssuedFor(t *testing.T) {
	s := newJobTokens(seal.NewKey())
	want := jobToken{organizationID: core.NewID(), agentID: core.NewID(), jobID: core.NewID()}
	if got, ok := s.read(s.issue(want)); !ok || got != want {
		t.Fatalf("read %v, %v", got, ok)
	}
}

func TestJobToken_IsRefusedWhenAnybodyElseMadeIt(t *testing.T) {
	s := newJobTokens(seal.NewKey())
	token := jobToken{organizationID: core.NewID(), agentID: core.NewID(), jobID: core.NewID()}
	text := s.issue(token)
	for name, forged := range map[string]string{
		"another key":  newJobTokens(seal.NewKey()).issue(token),
		"changed":      text[:10] + string(text[10]^1) + text[11:],
		"cut":          text[:len(text)-4],
		"longer":       text + "AAAA",
		"no prefix":    text[6:],
		"only prefix":  "svcaj_",
		"not base64":   "svcaj_" + "!!!",
		"empty":        "",
		"padded":       text + "=",
		"with a space": text + " ",
	} {
		if got, ok := s.read(forged); ok {
			t.Errorf("%s: read %v", name, got)
		}
	}
}
