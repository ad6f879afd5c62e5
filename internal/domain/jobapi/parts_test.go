package jobapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestArtifacts_ComeInParts(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	w := &runningBuild{s.RunBuild(t)}
	const size = 100<<20 + 3 // close to the smallest file that is sent in parts
	content := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
	announced := fields{"path": "large.bin", "file_size": size, "sha256sum": "", "sha1sum": "", "content_type": ""}
	id := core.NewID()
	answer := w.Post(w.Path("/artifacts"), fields{"id": id, "multipart_supported": true, "artifacts": []fields{announced, file{"small", "", "hello"}.announced()}}).Want(http.StatusOK)
	large := answer.String("artifact_ids.0")
	servertest.WantEqual(t, "instructions for the small one", answer.Has("per_artifact_instructions."+answer.String("artifact_ids.1")), false)
	servertest.WantEqual(t, "small", send(t, answer, "small", "hello").StatusCode, http.StatusNoContent)
	servertest.WantEqual(t, "large, as a form", send(t, answer, "large.bin", "hello").StatusCode, http.StatusUnprocessableEntity)

	parts := answer.Len("per_artifact_instructions." + large + ".actions")
	servertest.WantEqual(t, "parts", parts, 2)
	var etags []fields
	rest := content
	for i := range parts {
		n := size / parts
		if i < size%parts {
			n++
		}
		at := fmt.Sprintf("per_artifact_instructions.%s.actions.%d", large, i)
		servertest.WantEqual(t, "number", answer.String(at+".part_number"), fmt.Sprint(i+1))
		address := answer.String(at + ".url")
		servertest.WantEqual(t, "a part that is too short", do(t, http.MethodPut, address, "", strings.NewReader("x")).StatusCode, http.StatusUnprocessableEntity)
		resp := do(t, answer.String(at+".method"), address, "", bytes.NewReader(rest[:n]))
		servertest.WantEqual(t, "status", resp.StatusCode, http.StatusOK)
		etags = append(etags, fields{"part_number": i + 1, "etag": resp.Header.Get("ETag")})
		rest = rest[n:]
	}
	finish := func(etags []fields) *response {
		return w.Put(w.Path("/artifacts"), fields{"artifacts": []fields{{"id": large, "state": "finished", "multipart": true, "multipart_etags": etags}}})
	}
	finish(nil).Want(http.StatusUnprocessableEntity)
	finish(etags[:1]).Want(http.StatusUnprocessableEntity)
	finish([]fields{etags[0], {"part_number": 2, "etag": etags[0]["etag"]}}).Want(http.StatusUnprocessableEntity)
	finish(etags).Want(http.StatusOK)

	found := w.Get("/v3/builds/" + w.Build + "/artifacts/search?query=large.bin").Want(http.StatusOK)
	resp := do(t, http.MethodGet, found.String("0.url"), "", nil)
	sum := sha256.New()
	n, err := io.Copy(sum, resp.Body)
	servertest.WantEqual(t, "read", fmt.Sprint(n, err), fmt.Sprint(size, nil))
	whole := sha256.Sum256(content)
	servertest.WantEqual(t, "sum", hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(whole[:]))
}
