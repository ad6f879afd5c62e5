package gitremote

import (
	"bufio"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

var errFormat = errors.New("the source host did not answer as a Git server")

// lines reads the lines of Git's protocol: four hexadecimal digits with the length, and the content. The special lines
// that separate sections are left out.
type lines struct {
	in  *bufio.Reader
	buf []byte
}

func newLines(in io.Reader, most int64) *lines {
	return &lines{in: bufio.NewReader(io.LimitReader(in, most)), buf: make([]byte, 65536)}
}

// next returns the next line, which is valid until the next call. The error is io.EOF at the end of the response.
func (l *lines) next() ([]byte, error) {
	for {
		if _, err := io.ReadFull(l.in, l.buf[:4]); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = errFormat
			}
			return nil, err
		}
		length, err := strconv.ParseUint(string(l.buf[:4]), 16, 16)
		if err != nil {
			return nil, errFormat
		}
		if length <= 4 { // 0000, 0001 and 0002 separate; 0004 is empty
			continue
		}
		if _, err := io.ReadFull(l.in, l.buf[:length-4]); err != nil {
			return nil, errFormat
		}
		return l.buf[:length-4], nil
	}
}

// A pack reads the bytes of the pack in the response to a fetch. Each line of it begins with its channel: 1 has the
// bytes, 2 messages for people, 3 an error.
type pack struct {
	lines *lines
	begun bool
	rest  []byte
}

func newPack(l *lines) *bufio.Reader { return bufio.NewReader(&pack{lines: l}) }

func (p *pack) Read(into []byte) (int, error) {
	for len(p.rest) == 0 {
		line, err := p.lines.next()
		switch {
		case err != nil:
			return 0, err
		case !p.begun:
			p.begun = string(line) == "packfile\n"
		case line[0] == 1:
			p.rest = line[1:]
		case line[0] != 2:
			return 0, errFormat
		}
	}
	n := copy(into, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

const commitObject = 1 // a type of objects in packs

// firstCommit returns the text of the first object of a pack, which must be the commit with a name.
func firstCommit(in *bufio.Reader, sha string) (string, error) {
	head := make([]byte, 12)
	if _, err := io.ReadFull(in, head); err != nil || string(head[:4]) != "PACK" {
		return "", errFormat
	}
	// The first byte has the type in three bits; the size follows in groups of seven bits.
	first, err := in.ReadByte()
	if err != nil || first>>4&7 != commitObject {
		return "", errFormat
	}
	for b := first; b&0x80 != 0; {
		if b, err = in.ReadByte(); err != nil {
			return "", errFormat
		}
	}
	inflated, err := zlib.NewReader(in)
	if err != nil {
		return "", errFormat
	}
	text, err := io.ReadAll(io.LimitReader(inflated, maxCommit))
	if err != nil {
		return "", errFormat
	}
	object := fmt.Appendf(nil, "commit %d\x00%s", len(text), text)
	sum1, sum256 := sha1.Sum(object), sha256.Sum256(object)
	if hex.EncodeToString(sum1[:]) != sha && hex.EncodeToString(sum256[:]) != sha {
		return "", errFormat
	}
	return string(text), nil
}

// parseCommit parses the text of a commit: header lines, an empty line, and the message.
func parseCommit(sha, text string) Commit {
	c := Commit{SHA: sha}
	head, message, _ := strings.Cut(text, "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		author, ok := strings.CutPrefix(line, "author ")
		if !ok {
			continue
		}
		name, rest, _ := strings.Cut(author, "<")
		email, _, _ := strings.Cut(rest, ">")
		c.AuthorName, c.AuthorEmail = valid(strings.TrimSpace(name)), valid(email)
		break
	}
	c.Message = valid(strings.TrimSpace(message))
	return c
}

// valid returns text that both engines can store.
func valid(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}
