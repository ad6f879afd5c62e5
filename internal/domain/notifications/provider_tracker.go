package notifications

// tracker links builds to issues of an issue tracker, as the application that people have installed there.
var tracker = &Provider{
	ID: "tracker", Name: "Tracker",
	ConnectedOnly: true,
	Settings:      authorized,
}

// TrackerSettings are the settings of a tracker.
type TrackerSettings struct{ Authorization }
