package api

import (
	"context"
	"net/http"
)

// A Place selects where meta-data is read: the build of a job, or another build.
type Place struct{ kind, id string }

// InJob selects the build of a job.
func InJob(id string) Place { return Place{"jobs", id} }

// InBuild selects a build.
func InBuild(id string) Place { return Place{"builds", id} }

// MetaDatum is a key of a build's meta-data with its value.
type MetaDatum struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// SetMetaData sets all values, or none, on the build of a job.
func (c *Client) SetMetaData(ctx context.Context, jobID string, items ...MetaDatum) error {
	if len(items) == 1 {
		return c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "data", "set"), body: items[0], retry: insideJob})
	}
	body := struct {
		Items []MetaDatum `json:"items"`
	}{items}
	return c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "data", "set-batch"), body: body, retry: insideJob})
}

// MetaData returns the value of a key. The error has status 404 if there is none.
func (c *Client) MetaData(ctx context.Context, at Place, key string) (string, error) {
	var answer MetaDatum
	err := c.do(ctx, call{method: http.MethodPost, path: path(at.kind, at.id, "data", "get"), body: keyed{key}, answer: &answer, retry: insideJob})
	return answer.Value, err
}

// HasMetaData reports whether a key exists.
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
