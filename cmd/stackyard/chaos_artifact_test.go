package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// store uploads an artifact: it announces it, sends its bytes, and reports that they have arrived. It starts over with
// the same batch when the server restarts, because upload URLs contain the address of the server.
func (a *wildAgent) store(j *heldJob) bool {
	batch, content := uuid.NewString(), "made by "+a.id+" in "+j.id
	c := exchange{agent: a.id, verb: storing, job: j.id}
	for a.ctx.Err() == nil {
		c.sent = time.Now()
		id, status := a.storeOnce(j, batch, content)
		c.answered, c.status, c.text = time.Now(), status, id+"="+content
		a.history.add(c)
		if status != 0 {
			break
		}
		a.pause()
	}
	return true
}

// storeOnce returns status 0 if one of the requests got no response.
func (a *wildAgent) storeOnce(j *heldJob, batch, content string) (id string, status int) {
	announced, ok := a.call(j, "POST", "/artifacts", fmt.Sprintf(
		`{"id": %q, "artifacts": [{"path": "out/%s.txt", "file_size": %d}]}`, batch, j.id, len(content)))
	if !ok || announced.Status != http.StatusOK {
		return "", announced.Status
	}
	var form struct {
		IDs          []string `json:"artifact_ids"`
		Instructions struct {
			Action struct {
				URL, Method string
				FileInput   string `json:"file_input"`
			}
			Data map[string]string
		} `json:"upload_instructions"`
	}
	if err := json.Unmarshal(announced.Body, &form); err != nil || len(form.IDs) != 1 {
		a.t.Errorf("%v in the answer to artifacts: %s", err, announced.Body)
		return "", announced.Status
	}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, value := range form.Instructions.Data {
		w.WriteField(name, strings.ReplaceAll(value, "${artifact:path}", "out/"+j.id+".txt"))
	}
	part, err := w.CreateFormFile(form.Instructions.Action.FileInput, "out.txt")
	if err != nil {
		a.t.Error(err)
		return "", 0
	}
	part.Write([]byte(content))
	w.Close()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, form.Instructions.Action.Method, form.Instructions.Action.URL, &body)
	if err != nil {
		a.t.Error(err)
		return "", 0
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	sent, err := send(httpClient, req)
	switch {
	case err != nil, a.outages && sent.Status == http.StatusServiceUnavailable:
		return "", 0
	case sent.Status != http.StatusNoContent:
		return form.IDs[0], sent.Status
	}
	finished, _ := a.call(j, "PUT", "/artifacts", fmt.Sprintf(`{"artifacts": [{"id": %q, "state": "finished"}]}`, form.IDs[0]))
	return form.IDs[0], finished.Status
}

// call sends a request of a job, and reports whether there was a response.
func (a *wildAgent) call(j *heldJob, method, path, body string) (answer, bool) {
	got, err := a.ask(context.Background(), j.token, method, "/v3/jobs/"+j.id+path, body)
	if err != nil || a.outages && got.Status == http.StatusServiceUnavailable {
		return answer{}, false
	}
	return got, true
}
