package oauth

import (
	"fmt"
	"strings"

	"stackyard/internal/platform/core"
)

// errorCode is an OAuth error code (RFC 6749, 7009 and 8628).
type errorCode string

// Error codes.
const (
	invalidRequest          errorCode = "invalid_request"
	invalidClient           errorCode = "invalid_client"
	invalidGrant            errorCode = "invalid_grant"
	invalidScope            errorCode = "invalid_scope"
	unauthorizedClient      errorCode = "unauthorized_client"
	unsupportedGrantType    errorCode = "unsupported_grant_type"
	unsupportedResponseType errorCode = "unsupported_response_type"
	accessDenied            errorCode = "access_denied"
	authorizationPending    errorCode = "authorization_pending"
	slowDown                errorCode = "slow_down"
	expiredToken            errorCode = "expired_token"
	serverError             errorCode = "server_error"
)

// errorf returns an error with an OAuth code and a description for the application's developer.
func errorf(code errorCode, format string, args ...any) error {
	kind := core.BadRequest
	if code == invalidClient {
		kind = core.Unauthorized
	}
	return &core.Error{Kind: kind, Code: string(code), Message: strings.Map(describable, fmt.Sprintf(format, args...))}
}

// describable replaces characters that are not allowed in error descriptions (RFC 6749, 5.2).
func describable(r rune) rune {
	switch {
	case r == '"':
		return '\''
	case r < ' ' || r > '~' || r == '\\':
		return '?'
	}
	return r
}
