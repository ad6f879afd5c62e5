package api

import (
	"context"
	"net/http"
)

// A Place is where commands in jobs look for things: their own job, or another build.
type Place struct{ kind, id string }

// InJob is the place of a job and its build.
func InJob(id string) Place { return Place{"jobs", id} }

// InBuild is the place of a build.
func InBuild(id string) Place { return Place{"builds", id} }

// MetaDatum is a value of a build under a key.
type MetaDatum struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// SetMetaData sets values of the build of a job, all or none.
func (c *Client) SetMetaData(ctx context.Context, jobID string, items ...MetaDatum) error {
	if len(items) == 1 {
		return c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "data", "set"), body: items[0], retry: insideJob})
	}
	body := struct {
		Items []MetaDatum `json:"items"`
	}{items}
	return c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "data", "set-batch"), body: body, retry: insideJob})
}

// MetaData returns the value under a key; it fails with status 404 when there is none.
func (c *Client) MetaData(ctx context.Context, at Place, key string) (string, error) {
	var answer MetaDatum
	err := c.do(ctx, call{method: http.MethodPost, path: path(at.kind, at.id, "data", "get"), body: keyed{key}, answer: &answer, retry: insideJob})
	return answer.Value, err
}

// HasMetaData reports whether there is a value under a key.
func (c *Client) HasMetaData(ctx context.Context, at Place, key string) (bool, error) {
	var answer struct {
		Exists bool `json:"exists"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: path(at.kind, at.id, "data", "exists"), body: keyed{key}, answer: &answer, retry: insideJob})
	return answer.Exists, err
}

// MetaDataKeys returns all keys.
func (c *Client) MetaDataKeys(ctx context.Context, at Place) ([]string, error) {
	var keys []string
	err := c.do(ctx, call{method: http.MethodPost, path: path(at.kind, at.id, "data", "keys"), answer: &keys, retry: insideJob})
	return keys, err
}

type keyed struct {
	Key string `json:"key"`
}
