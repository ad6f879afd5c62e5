package jobapi

import (
	"bytes"
	"io"
	"mime/multipart"
	"testing"

	"stackyard/internal/platform/core"
)

func FuzzReadForm(f *testing.F) {
	f.Add([]byte("--x\r\nContent-Disposition: form-data; name=\"job\"\r\n\r\na\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nhello\r\n--x--\r\n"))
	f.Add([]byte("--x--"))
	f.Fuzz(func(t *testing.T, body []byte) {
		fields, file, err := readForm(multipart.NewReader(bytes.NewReader(body), "x"))
		if err != nil {
			if core.KindOf(err) == 0 {
				t.Fatalf("an error that is not for the one who sent it: %v", err)
			}
			return
		}
		if len(fields) > maxFields {
			t.Errorf("%d fields", len(fields))
		}
		io.Copy(io.Discard, file)
	})
}
