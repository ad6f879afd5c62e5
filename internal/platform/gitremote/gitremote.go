// Package gitremote asks Git repositories over HTTP which commit a branch or tag is at, and reads that commit.
//
// It does what git ls-remote and a fetch of one commit do, without a process, a disk or credentials of the machine: three
// requests of version 2 of Git's protocol. From servers that know only the first version it gets the commit's name
// alone. It uses the HTTP client that it is given, so that the installation's rules for allowed addresses apply, and reads
// a bounded part of each response.
package gitremote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"unicode"
)

// Limits of what is read of a response.
const (
	maxRefs   = 8 << 20 // bytes; servers without version 2 list all branches and tags
	maxPack   = 1 << 20
	maxCommit = 256 << 10
)

// ErrNotFound says that the repository has none of the branches and tags.
var ErrNotFound = errors.New("the repository has no such branch or tag")

// A Remote is a repository at an http or https URL.
type Remote struct {
	Client         *http.Client
	URL            string // without credentials
	User, Password string // empty: none
}

// A Commit is a commit of a repository. Only SHA is known from old servers.
type Commit struct {
	SHA         string
	AuthorName  string
	AuthorEmail string
	Message     string
}

// Resolve returns the commit of the first of refs that the repository has. Refs are complete names, such as
// refs/heads/main.
func (r *Remote) Resolve(ctx context.Context, refs ...string) (Commit, error) {
	for _, ref := range refs {
		if strings.ContainsFunc(ref, unicode.IsControl) || len(ref) > 1000 {
			return Commit{}, ErrNotFound
		}
	}
	server, err := r.capabilities(ctx)
	if err != nil {
		return Commit{}, err
	}
	found := server.refs
	if server.version2 {
		if found, err = r.list(ctx, server, refs); err != nil {
			return Commit{}, err
		}
	}
	for _, ref := range refs {
		sha, ok := found[ref]
		if !ok {
			continue
		}
		if !server.version2 {
			return Commit{SHA: sha}, nil
		}
		return r.read(ctx, server, sha)
	}
	return Commit{}, ErrNotFound
}

// A description is what a server says about itself.
type description struct {
	version2 bool
	filter   bool
	format   string            // of object names; empty: not said
	refs     map[string]string // of version 1: all
}

var objectName = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

func (r *Remote) capabilities(ctx context.Context) (*description, error) {
	body, err := r.request(ctx, http.MethodGet, "/info/refs?service=git-upload-pack", nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	d := &description{refs: map[string]string{}}
	lines := newLines(body, maxRefs)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return d, nil
		}
		if err != nil {
			return nil, err
		}
		text := strings.TrimSuffix(string(line), "\n")
		switch {
		case strings.HasPrefix(text, "#"):
		case text == "version 2":
			d.version2 = true
		case d.version2:
			name, value, _ := strings.Cut(text, "=")
			d.filter = d.filter || name == "fetch" && strings.Contains(" "+value+" ", " filter ")
			if name == "object-format" {
				d.format = value
			}
		default:
			text, _, _ = strings.Cut(text, "\x00")
			addRef(d.refs, text)
		}
	}
}

// addRef adds a line with an object and a ref. The object of an annotated tag is replaced by its commit, which follows
// it in a line of its own or as an attribute.
func addRef(refs map[string]string, line string) {
	sha, name, _ := strings.Cut(line, " ")
	name, attributes, _ := strings.Cut(name, " ")
	if _, peeled, ok := strings.Cut(attributes, "peeled:"); ok {
		sha, _, _ = strings.Cut(peeled, " ")
	}
	if objectName.MatchString(sha) && name != "" {
		refs[strings.TrimSuffix(name, "^{}")] = sha
	}
}

func (r *Remote) list(ctx context.Context, server *description, refs []string) (map[string]string, error) {
	args := []string{"peel\n"}
	for _, ref := range refs {
		args = append(args, "ref-prefix "+ref+"\n")
	}
	body, err := r.command(ctx, server, "ls-refs", args...)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	found := map[string]string{}
	lines := newLines(body, maxRefs)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		addRef(found, strings.TrimSuffix(string(line), "\n"))
	}
}

// read returns a commit. It fetches the commit without its files where the server can leave them out; otherwise it stops
// to read after the commit, which comes first.
func (r *Remote) read(ctx context.Context, server *description, sha string) (Commit, error) {
	args := []string{"no-progress\n", "want " + sha + "\n", "deepen 1\n"}
	if server.filter {
		args = append(args, "filter tree:0\n")
	}
	body, err := r.command(ctx, server, "fetch", append(args, "done\n")...)
	if err != nil {
		return Commit{SHA: sha}, nil // its name is known
	}
	defer body.Close()
	text, err := firstCommit(newPack(newLines(body, maxPack)), sha)
	if err != nil {
		return Commit{SHA: sha}, nil
	}
	return parseCommit(sha, text), nil
}

// command sends a command of version 2 and returns the response.
func (r *Remote) command(ctx context.Context, server *description, name string, args ...string) (io.ReadCloser, error) {
	var request bytes.Buffer
	write := func(line string) { fmt.Fprintf(&request, "%04x%s", len(line)+4, line) }
	write("command=" + name + "\n")
	if server.format != "" {
		write("object-format=" + server.format + "\n")
	}
	request.WriteString("0001")
	for _, arg := range args {
		write(arg)
	}
	request.WriteString("0000")
	return r.request(ctx, http.MethodPost, "/git-upload-pack", &request)
}

func (r *Remote) request(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.URL, "/")+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Git-Protocol", "version=2")
	req.Header.Set("User-Agent", "git/2.39 stackyard") // hosts answer browsers with pages
	if body != nil {
		req.Header.Set("Content-Type", "application/x-git-upload-pack-request")
		req.Header.Set("Accept", "application/x-git-upload-pack-result")
	}
	if r.User != "" || r.Password != "" {
		req.SetBasicAuth(r.User, r.Password)
	}
	resp, err := r.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("the source host answered with status %d", resp.StatusCode)
	}
	return resp.Body, nil
}
