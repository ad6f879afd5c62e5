package notifications

// tracker opens issues for failed builds, and comments on issues of builds.
var tracker = &Provider{
	ID: "tracker", Name: "Tracker",
	ConnectedOnly: true,
	connection:    func(c Connections) *Connection { return c.Tracker },
	scopes:        []string{"write"},
	Settings: append([]Setting{
		{Name: "team", Kind: text{max: 32}, Doc: "Key of the team that gets new issues, such as ENG. It can stay empty when the workspace has one team."},
	}, authorized...),
}

// TrackerSettings are the settings of a tracker.
type TrackerSettings struct {
	Team string `json:"team"`
	Authorization
}
