package checkout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/shell"
)

// A Step is what a step says about its checkout. Fields that are nil are left to variables of the job.
type Step struct {
	Skip       *bool `json:"skip"`
	Submodules *bool `json:"submodules"`
	Depth      *int  `json:"depth"`
	LFS        *bool `json:"lfs"`
	Sparse     *struct {
		Paths []string `json:"paths"`
	} `json:"sparse"`
}

// SetVariables sets the variables of the job that a step's checkout stands for.
func (s Step) SetVariables(env environ.Environment) {
	for name, value := range map[string]*bool{"SKIP_CHECKOUT": s.Skip, "GIT_SUBMODULES": s.Submodules, "GIT_LFS_ENABLED": s.LFS} {
		if value != nil {
			env.SetService(name, strconv.FormatBool(*value))
		}
	}
	if s.Depth != nil {
		env.SetService("GIT_DEPTH", strconv.Itoa(*s.Depth))
	}
	if s.Sparse != nil {
		env.SetService("GIT_SPARSE_CHECKOUT_PATHS", strings.Join(s.Sparse.Paths, ","))
	}
}

// filters are the objects that a partial clone can leave out until they are needed.
var filters = []string{"blob:none", "tree:0"}

// checkParts rejects values that git would read as something else.
func (c Checkout) checkParts() error {
	for _, path := range c.Sparse {
		if strings.HasPrefix(path, "-") {
			return fmt.Errorf("the sparse path %q begins with a dash", path)
		}
	}
	if c.Filter != "" && c.Filter != filters[0] && c.Filter != filters[1] {
		return fmt.Errorf("SERVICE_GIT_FILTER %q is not one of %s", c.Filter, strings.Join(filters, ", "))
	}
	return nil
}

// incomplete reports whether the clone lacks objects, so that it is not worth reusing others.
func (c Checkout) incomplete() bool { return c.Depth > 0 || c.Filter != "" }

// limits returns the options of clone and fetch that leave objects out.
func (c Checkout) limits() []string {
	var options []string
	if c.Depth > 0 {
		options = append(options, "--depth", strconv.Itoa(c.Depth))
	}
	if c.Filter != "" {
		options = append(options, "--filter", c.Filter)
	}
	return options
}

// sparse limits the files of the working directory, before they are checked out.
func (c Checkout) sparse(sh *shell.Shell) error {
	if len(c.Sparse) == 0 {
		return nil
	}
	mode := "--cone"
	if c.SparsePatterns {
		mode = "--no-cone"
	}
	return sh.Run(append([]string{"git", "sparse-checkout", "set", mode, "--"}, c.Sparse...)...)
}

// lfs downloads the files that Git LFS keeps outside of the repository.
func (c Checkout) lfs(sh *shell.Shell) error {
	if !c.LFS {
		return nil
	}
	if _, err := sh.Output("git", "lfs", "version"); err != nil {
		return errors.New("the step wants Git LFS, which is not installed on this machine; install git-lfs")
	}
	for _, args := range [][]string{
		{"git", "lfs", "install", "--local", "--skip-repo"},
		{"git", "lfs", "pull"},
	} {
		if err := sh.Run(args...); err != nil {
			return err
		}
	}
	return nil
}
