package sourcehost

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A GitHubApp is an installation of a GitHub App, which creates tokens that expire after an hour.
type GitHubApp struct {
	AppID          string
	InstallationID string
	Key            *rsa.PrivateKey
}

// ParseAppKey reads the private key of a GitHub App, a PEM file.
func ParseAppKey(text string) (*rsa.PrivateKey, error) {
	wrong := errors.New("must be the PEM file with the app's private RSA key, as GitHub generates it")
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, wrong
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if key, ok := parsed.(*rsa.PrivateKey); ok && err == nil {
		return key, nil
	}
	return nil, wrong
}

// An AppToken is a token of an installation.
type AppToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// NewToken creates a token of the installation. With a repository, the token can only read the contents of that one.
func (a GitHubApp) NewToken(ctx context.Context, apiURL, repository string, now time.Time, client *http.Client) (AppToken, error) {
	proof, err := a.proof(now)
	if err != nil {
		return AppToken{}, err
	}
	var body any
	if repository != "" {
		body = map[string]any{"repositories": []string{repository}, "permissions": map[string]string{"contents": "read"}}
	}
	github := NewGitHub(apiURL, proof, client)
	resp, content, err := github.api.send(ctx, http.MethodPost, "/app/installations/"+url.PathEscape(a.InstallationID)+"/access_tokens", body)
	if err != nil {
		return AppToken{}, err
	}
	switch resp.StatusCode {
	case http.StatusCreated:
	case http.StatusUnauthorized:
		return AppToken{}, fmt.Errorf("%w: it does not accept the key of the app %s (%s)", ErrRefused, a.AppID, readProblem(content))
	case http.StatusNotFound:
		return AppToken{}, fmt.Errorf("%w: the app %s has no installation %s", ErrRefused, a.AppID, a.InstallationID)
	default:
		return AppToken{}, refusal(resp, content, action{"read", "contents"}, Repository{Path: repository})
	}
	var made AppToken
	if err := json.Unmarshal(content, &made); err != nil || made.Token == "" || made.ExpiresAt.IsZero() {
		return AppToken{}, fmt.Errorf("%w: it answered without a token", ErrUnavailable)
	}
	return made, nil
}

// proof returns a token that shows that the caller is the app. It is valid for less than ten minutes, and from a minute
// ago because clocks differ.
func (a GitHubApp) proof(now time.Time) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: a.Key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(map[string]any{"iss": a.AppID, "iat": now.Add(-time.Minute).Unix(), "exp": now.Add(8 * time.Minute).Unix()}).Serialize()
}
