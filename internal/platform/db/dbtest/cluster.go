package dbtest

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// initdbArgs create an empty cluster. Its default collation is that of an ordinary installation, to catch
// columns that do not sort by bytes.
var initdbArgs = []string{"-U", "postgres", "--no-sync", "--auth=trust", "--encoding=UTF8",
	"--locale=C", "--locale-provider=icu", "--icu-locale=en", "--wal-segsize=1"}

// binaries returns the folder of the newest PostgreSQL server that is installed.
func binaries() (string, error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		initdb, err = filepath.EvalSymlinks(initdb) // the other programs are beside the file itself
		return filepath.Dir(initdb), err
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errors.New("these tests need a PostgreSQL server and none is installed; run `make test`, which installs it")
	}
	newest := slices.MaxFunc(found, func(a, b string) int { // 9 before 15
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return filepath.Dir(newest), nil
}

// account is the system account of the server; nil is the one that runs the tests.
type account struct{ uid, gid int }

// unprivileged returns another account when the tests run as root, which PostgreSQL refuses.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		return &account{uid, gid}, errors.Join(err1, err2)
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody to run it as")
}

// attributes makes a process run as the account, in its own process group so that an interrupt from the
// terminal reaches only the tests.
func (a *account) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attributes
}

// own gives a folder and everything in it to the account.
func (a *account) own(folder string) error {
	if a == nil {
		return nil
	}
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, a.uid, a.gid)
	})
}

// makeCluster returns a new folder with an empty cluster that belongs to the account. It is below another
// folder; "" is the system's temporary folder.
func makeCluster(below, bin string, who *account) (string, error) {
	folder, err := os.MkdirTemp(below, "stackyard-postgres-")
	if err != nil {
		return "", err
	}
	cluster := filepath.Join(folder, "cluster")
	if err := copyCached(bin, cluster); err == nil {
		return folder, who.own(folder)
	}
	if err := errors.Join(who.own(folder), initdb(bin, who, cluster)); err != nil {
		os.RemoveAll(folder)
		return "", err
	}
	cache(bin, cluster)
	return folder, nil
}

// memoryFolder returns a large folder in memory if there is one, where copying a database takes a tenth of the
// time, else "" for the system's temporary folder.
func memoryFolder() string {
	const memory, enough = "/dev/shm", 2 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < enough {
		return ""
	}
	return memory
}

func initdb(bin string, who *account, cluster string) error {
	cmd := exec.Command(filepath.Join(bin, "initdb"), append(initdbArgs, "-D", cluster)...)
	cmd.Dir = "/"
	cmd.SysProcAttr = who.attributes()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	return nil
}

// cached returns the path of an empty cluster of this version that test processes share: initdb takes longer
// than the tests of most packages.
func cached(bin string) (string, error) {
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	version, err := exec.Command(filepath.Join(bin, "initdb"), "--version").Output()
	if err != nil {
		return "", err
	}
	recipe := sha256.Sum256(fmt.Append(version, initdbArgs))
	return filepath.Join(folder, "stackyard-dbtest", fmt.Sprintf("%x", recipe[:8])), nil
}

func copyCached(bin, cluster string) error {
	from, err := cached(bin)
	if err != nil {
		return err
	}
	if err := os.CopyFS(cluster, os.DirFS(from)); err != nil {
		os.RemoveAll(cluster)
		return err
	}
	return os.Chmod(cluster, 0o700)
}

// cache saves a copy of a cluster. A failure only costs the next process time. The copy gets its name when it
// is complete, because several processes may do this at the same time.
func cache(bin, cluster string) {
	name, err := cached(bin)
	if err != nil || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return
	}
	partial, err := os.MkdirTemp(filepath.Dir(name), "partial-")
	if err != nil {
		return
	}
	if os.CopyFS(partial, os.DirFS(cluster)) != nil || os.Rename(partial, name) != nil {
		os.RemoveAll(partial)
	}
}
