package pages

import (
	"fmt"
	"strings"
	"time"

	"stackyard/internal/domain/delivery"
)

// A Delivery is a delivery in a list.
type Delivery struct {
	*delivery.Delivery
	Path string // of its page; empty: it has none
}

// Class is the class of the state's badge.
func (r Delivery) Class() string {
	switch {
	case r.State == delivery.Delivered:
		return "good"
	case r.State == delivery.Failed:
		return "bad"
	case r.Attempts > 0:
		return "warn"
	}
	return ""
}

// Label is the state for people.
func (r Delivery) Label() string {
	if r.State == delivery.Pending && r.Attempts > 0 {
		return "retrying"
	}
	return string(r.State)
}

// Result says what came of the last attempt.
func (r Delivery) Result() string {
	var parts []string
	if r.Attempts > 1 {
		parts = append(parts, fmt.Sprintf("%d attempts", r.Attempts))
	}
	if r.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", r.Status))
	}
	if took := r.Duration.Round(time.Millisecond); took > 0 {
		parts = append(parts, took.String())
	}
	return strings.Join(parts, " · ")
}
