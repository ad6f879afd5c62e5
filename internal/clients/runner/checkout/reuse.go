package checkout

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"stackyard/internal/clients/runner/shell"
)

// formerRemote is the temporary remote for the commits of the previous checkout.
const formerRemote = "previous"

// cloneWith creates the same result as git clone, but fetches only objects that the previous checkout does not
// have.
func (c Checkout) cloneWith(sh *shell.Shell, previous string) error {
	objects, err := isolate(sh, previous)
	if err != nil {
		return err
	}
	sh.Comment("Reusing the objects of the previous checkout")
	return c.cloneFrom(sh, objects, "+HEAD:refs/remotes/"+formerRemote+"/head",
		"+refs/remotes/origin/*:refs/remotes/"+formerRemote+"/branches/*", "+refs/tags/*:refs/remotes/"+formerRemote+"/tags/*")
}

// cloneFrom creates the same result as git clone, but takes objects from a repository on this machine first.
func (c Checkout) cloneFrom(sh *shell.Shell, objects string, refspecs ...string) error {
	for _, args := range [][]string{
		{"git", "init", "--quiet", "."},
		{"git", "remote", "add", "origin", c.Repository},
		{"git", "remote", "add", formerRemote, objects},
		append([]string{"git", "-c", "gc.auto=0", "fetch", "--quiet", "--no-tags", formerRemote}, refspecs...),
	} {
		if err := sh.RunQuietly(args...); err != nil {
			return err
		}
	}
	source := "origin"
	if c.usesMirror() {
		source = c.Mirror
	}
	err := fetchAll(sh, source)
	if err != nil && source != "origin" && !errors.Is(err, shell.ErrStopped) {
		sh.Warning("The mirror cannot be fetched, the repository is used instead: %v", err)
		source = "origin"
		err = fetchAll(sh, source)
	}
	if err != nil {
		return err
	}
	trackDefaultBranch(sh, source)
	return sh.RunQuietly("git", "remote", "remove", formerRemote)
}

// isolate creates a repository from the objects and references of a previous checkout, and returns its path. It
// takes nothing else, especially no configuration, because the job could write anything into .git. The
// repository is still untrusted, but it is safe to fetch from: git computes the hash of each fetched object
// from its bytes.
func isolate(sh *shell.Shell, previous string) (path string, err error) {
	const name = ".stackyard-objects"
	// The root keeps links from leading outside.
	root, err := os.OpenRoot(previous)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.RemoveAll(name); err != nil {
		return "", err
	}
	path = filepath.Join(previous, name)
	if _, err := sh.Output("git", "init", "--quiet", "--bare", "--template=", path); err != nil {
		return "", err
	}
	for _, part := range []string{"HEAD", "objects", "refs", "packed-refs"} {
		if err := root.RemoveAll(name + "/" + part); err != nil {
			return "", err
		}
		if err := root.Rename(".git/"+part, name+"/"+part); err != nil && !(part == "packed-refs" && errors.Is(err, fs.ErrNotExist)) {
			return "", err
		}
	}
	if err := root.RemoveAll(name + "/objects/info"); err != nil { // contains alternates
		return "", err
	}
	return path, removeSpecial(root, name)
}

// removeSpecial removes everything below a directory that is neither a file nor a directory. Git would block
// forever on a named pipe.
func removeSpecial(root *os.Root, folder string) error {
	return fs.WalkDir(root.FS(), folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Type().IsRegular() {
			return err
		}
		return root.Remove(path)
	})
}

// trackDefaultBranch sets up the repository's default branch as git clone does, if there is one.
func trackDefaultBranch(sh *shell.Shell, source string) {
	answer, err := sh.Output("git", "ls-remote", "--symref", "--", source, "HEAD")
	if err != nil {
		return
	}
	ref, _, _ := strings.Cut(strings.TrimPrefix(answer, "ref: "), "\t")
	branch, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok {
		return
	}
	for _, args := range [][]string{
		{"git", "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/" + branch},
		{"git", "symbolic-ref", "HEAD", ref},
		{"git", "update-ref", ref, "refs/remotes/origin/" + branch},
		{"git", "config", "branch." + branch + ".remote", "origin"},
		{"git", "config", "branch." + branch + ".merge", ref},
	} {
		if _, err := sh.Output(args...); err != nil {
			return
		}
	}
}
