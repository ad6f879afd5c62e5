package testreport

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"mime/multipart"

	"stackyard/internal/platform/core"
)

// The bounds of a form.
const (
	maxParts = 200
	maxField = 64 << 10 // bytes
)

// readForm parses a form with a file called data, and fields called format and run_env[…], in any order.
func (r *Report) readForm(content io.Reader, boundary string) error {
	if boundary == "" {
		return core.Errorf(core.BadRequest, "The Content-Type multipart/form-data has no boundary")
	}
	form := multipart.NewReader(content, boundary)
	found := false
	for range maxParts {
		part, err := form.NextPart()
		switch {
		case err == io.EOF && !found:
			return core.Errorf(core.BadRequest, "The form has no file called data")
		case err == io.EOF:
			return nil
		case err != nil:
			return bodyError(err, "The form cannot be read: %s", err)
		}
		if part.FormName() == "data" {
			found = true
			if err := r.readPart(part); err != nil {
				return err
			}
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, maxField+1))
		switch {
		case err != nil:
			return bodyError(err, "The form cannot be read: %s", err)
		case len(value) > maxField:
			return core.Errorf(core.TooLarge, "The field %.50q of the form has more than %d bytes", part.FormName(), maxField)
		}
		r.setField(part.FormName(), plain(string(value)))
	}
	return core.Errorf(core.BadRequest, "The form has more than %d parts", maxParts)
}

// readPart parses a file of a form, which may be compressed.
func (r *Report) readPart(part io.Reader) error {
	b := bufio.NewReader(part)
	if magic, _ := b.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return r.readContent(b)
	}
	unzipped, err := gzip.NewReader(b)
	if err != nil {
		return bodyError(err, "The file data is not valid gzip")
	}
	return r.readContent(&limited{r: unzipped, left: &r.left})
}
