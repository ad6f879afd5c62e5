package notifications

// tracker links builds to issues of an issue tracker.
var tracker = &Provider{
	ID: "tracker", Name: "Tracker",
	ConnectedOnly: true,
	connection:    func(c Connections) *Connection { return c.Tracker },
	scopes:        []string{"write"},
	Settings:      authorized,
}

// TrackerSettings are the settings of a tracker.
type TrackerSettings struct{ Authorization }
