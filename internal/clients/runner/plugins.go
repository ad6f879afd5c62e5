package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"stackyard/internal/clients/runner/checkout"
	"stackyard/internal/clients/runner/plugin"
	"stackyard/internal/clients/runner/shell"
)

// A loadedPlugin is a plugin whose hooks can be run.
type loadedPlugin struct {
	plugin.Plugin
	dir       string
	variables map[string]string // of its hooks, without the prefix of service variables
}

// preparePlugins fetches the plugins of the step. Those in the repository are found after its checkout.
func (j *job) preparePlugins() error {
	text := strings.TrimSpace(j.sh.Env.Service("PLUGINS"))
	if text == "" || text == "[]" || text == "null" {
		return nil
	}
	plugins, err := plugin.Parse(text)
	if err != nil {
		return err
	}
	j.sh.Section(shell.Muted, "Preparing plugins")
	root := j.w.o.PluginsPath
	if root == "" { // a fresh checkout for each job, which no other job could have changed
		root = filepath.Join(j.temp, "plugins")
	}
	if err := os.MkdirAll(root, 0o777); err != nil {
		return err
	}
	if j.w.o.PluginsPath == "" {
		if err := j.sh.Chown(root); err != nil {
			return err
		}
	}
	j.sh.Env.SetService("PLUGINS_PATH", root)
	for _, p := range plugins {
		if p.Name() == "kubernetes" {
			continue // for the stack that started this agent
		}
		loaded := &loadedPlugin{Plugin: p}
		if loaded.variables, err = p.Variables(); err != nil {
			return err
		}
		if !p.Vendored() {
			if loaded.dir, err = j.fetchPlugin(p, root); err != nil {
				return fmt.Errorf("get the plugin %s: %w", p, err)
			}
			if err := j.w.o.PluginsLock.Check(p, loaded.dir); err != nil {
				return &refusal{agentRefused, fmt.Sprintf("The plugin %s was refused: %v.", p, err)}
			}
		}
		j.plugins = append(j.plugins, loaded)
	}
	return nil
}

// fetchPlugin returns the folder of a plugin, which it clones unless it is there.
func (j *job) fetchPlugin(p plugin.Plugin, root string) (string, error) {
	repository := p.Repository()
	if err := checkout.CheckTransport(repository); err != nil {
		return "", err
	}
	if filepath.IsAbs(repository) {
		if _, err := os.Stat(filepath.Join(repository, ".git")); errors.Is(err, os.ErrNotExist) && p.Version == "" {
			return repository, nil // a folder on this machine
		}
	}
	dir := filepath.Join(root, p.Dir())
	if _, err := os.Stat(dir); err == nil {
		j.sh.Comment("The plugin %s is in %s", p, dir)
		return dir, nil
	}
	if j.w.o.PluginsOffline {
		return "", errors.New("it is not on this machine, and the agent fetches no plugins (--plugins-offline)")
	}
	// Other jobs may clone it at the same time: the complete checkout gets its name at the end.
	part, err := os.MkdirTemp(root, ".part-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := errors.Join(os.Chmod(part, 0o755), j.sh.Chown(part)); err != nil {
		return "", err
	}
	if err := j.clonePlugin(p, repository, part); err != nil {
		return "", err
	}
	if err := os.Rename(part, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return "", err
		}
	}
	return dir, nil
}

// clonePlugin clones a version of a plugin into an empty folder.
func (j *job) clonePlugin(p plugin.Plugin, repository, dir string) error {
	defer j.sh.Env.Apply(checkout.Quiet(j.sh.Env))
	shallow := []string{"git", "clone", "--quiet", "--depth", "1", "--single-branch"}
	if p.Version != "" {
		shallow = append(shallow, "--branch", p.Version)
	}
	err := j.sh.Run(append(shallow, "--", repository, dir)...)
	if err == nil || p.Version == "" || j.sh.Stopped() {
		return err
	}
	// The version is a commit, which cannot be cloned by name.
	if err := j.sh.Run("git", "clone", "--quiet", "--no-checkout", "--", repository, dir); err != nil {
		return err
	}
	return j.sh.Run("git", "-C", dir, "checkout", "--quiet", "--detach", p.Version)
}

// findVendoredPlugins finds the plugins that are folders of the repository.
func (j *job) findVendoredPlugins() error {
	for _, p := range j.plugins {
		if !p.Vendored() {
			continue
		}
		path := filepath.Clean(filepath.FromSlash(p.Source))
		if !filepath.IsLocal(path) {
			return fmt.Errorf("the plugin %s is outside of the repository", p)
		}
		p.dir = filepath.Join(j.sh.Dir, path)
		if about, err := os.Stat(p.dir); err != nil || !about.IsDir() {
			return fmt.Errorf("the plugin %s is not a folder of the repository", p)
		}
	}
	return nil
}

// pluginHooks returns the existing hooks of plugins.
func (j *job) pluginHooks(name string) []hook {
	var found []hook
	for _, p := range j.plugins {
		if p.dir != "" {
			found = appendHook(found, hook{owner: "plugin " + p.Name(), name: name, path: filepath.Join(p.dir, "hooks", name), variables: p.variables})
		}
	}
	return found
}
