package notifications

// chatWorkspace posts messages to channels of a chat workspace.
var chatWorkspace = &Provider{
	ID: "chat_workspace", Name: "Chat Workspace",
	ConnectedOnly: true,
	connection:    func(c Connections) *Connection { return c.Chat },
	scopes:        []string{"chat:write,chat:write.public"}, // with a comma, as the chat wants it
	Settings: append([]Setting{
		{Name: "channel", Kind: text{max: 255}, Doc: "Channel of messages about builds, such as #builds. Empty: only channels that pipelines name with notify."},
		theme,
	}, authorized...),
}

// ChatWorkspaceSettings are the settings of a chat workspace.
type ChatWorkspaceSettings struct {
	Channel string `json:"channel"`
	Theme   string `json:"theme"`
	Authorization
}

// authorized are the managed settings of providers that are connected over OAuth.
var authorized = []Setting{
	{Name: "workspace_id", Kind: text{max: 255}, Managed: true, Doc: "The workspace's id at the provider."},
	{Name: "workspace_name", Kind: text{max: 255}, Managed: true, Doc: "The workspace's name at the provider."},
	{Name: "access_token", Kind: text{max: 8192}, Managed: true, Show: Omitted, Doc: "Never shown."},
	{Name: "refresh_token", Kind: text{max: 8192}, Managed: true, Show: Omitted, Doc: "Never shown."},
	{Name: "expires_at", Kind: text{max: 64}, Managed: true, Show: Omitted, Doc: "When the access token expires. Never shown."},
	{Name: "refreshing_until", Kind: text{max: 64}, Managed: true, Show: Omitted, Doc: "While a process refreshes the access token. Never shown."},
}

// An Authorization is the workspace and the credentials of a connected receiver.
type Authorization struct {
	WorkspaceID   string `json:"workspace_id,omitempty"`
	WorkspaceName string `json:"workspace_name,omitempty"`
	AccessToken   string `json:"access_token,omitempty"`
	RefreshToken  string `json:"refresh_token,omitempty"`
	ExpiresAt     string `json:"expires_at,omitempty"` // RFC 3339; "": never
	// RefreshingUntil is when the claim of the process that refreshes the access token expires.
	RefreshingUntil string `json:"refreshing_until,omitempty"`
}
