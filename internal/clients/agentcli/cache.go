package agentcli

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/cache"
	"stackyard/internal/clients/runner/environ"
)

func agentCacheCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cache", Short: "Save and restore folders between jobs"}
	cmd.AddCommand(cacheSaveCommand(), cacheRestoreCommand())
	return cmd
}

const cacheHelp = `
An entry has a key and the paths that it was saved from. It never changes: save does
nothing if the key exists. --checksum adds a part to the key that changes with the
content of files; restore takes the newest entry with the same KEY if there is none
with that checksum.

Without KEY and PATH, the caches in .stackyard/cache.yml (or .buildkite/cache.yml) are
used, all of them or those of --name.`

func cacheSaveCommand() *cobra.Command {
	cmd := addCacheFlags(&cobra.Command{
		Use:     "save [KEY PATH...]",
		Short:   "Save folders for later jobs",
		Long:    "Save folders for later jobs of the same branch or pull request.\n" + cacheHelp,
		Example: "  stackyard agent cache save node-linux node_modules --checksum package-lock.json",
	})
	return insideCommand(cmd, func(s *script, args []string) error {
		return s.caches(args, func(c *cache.Cache, e cache.Entry) error { return c.Save(s.ctx, e) })
	})
}

func cacheRestoreCommand() *cobra.Command {
	cmd := addCacheFlags(&cobra.Command{
		Use:     "restore [KEY PATH...]",
		Short:   "Restore folders that an earlier job saved",
		Long:    "Restore folders that an earlier job of the same branch or pull request, of its base\nbranch or of the default branch saved. It is no error if there are none.\n" + cacheHelp,
		Example: "  stackyard agent cache restore node-linux node_modules --checksum package-lock.json",
	})
	cmd.Flags().StringArray("restore-key", nil, "beginning of other keys that will do, the best first; repeatable")
	cmd.Flags().Bool("required", false, "fail if nothing was restored")
	return insideCommand(cmd, func(s *script, args []string) error {
		return s.caches(args, func(c *cache.Cache, e cache.Entry) error {
			e.RestoreKeys = s.list("restore-key")
			restored, err := c.Restore(s.ctx, e)
			if err == nil && !restored && s.on("required") {
				err = errors.New("no cache was restored")
			}
			return err
		})
	})
}

func addCacheFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	flags := cmd.Flags()
	flags.StringArray("checksum", nil, `files whose content is a part of the key, such as go.sum or "**/go.sum"; repeatable`)
	flags.StringArray("name", nil, "cache of the file; repeatable (default: all)")
	flags.String("cache-config-file", "", "file with caches [SERVICE_CACHE_CONFIG_FILE]")
	flags.String("registry", "~", "name of the cache [SERVICE_AGENT_CACHE_REGISTRY]")
	for _, other := range []string{"cache-store-url", "concurrency"} { // of published agents, which store caches elsewhere
		flags.String(other, "", "not used")
		flags.MarkHidden(other)
	}
	return cmd
}

// list returns the values of a repeatable flag.
func (s *script) list(name string) []string {
	values, err := s.cmd.Flags().GetStringArray(name)
	if err != nil {
		panic(err) // the flag is a list
	}
	return values
}

// caches calls do for the caches of the arguments, or those of the file.
func (s *script) caches(args []string, do func(c *cache.Cache, e cache.Entry) error) error {
	env := environ.Parse(os.Environ())
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = dir // there is none: ~ means nothing
	}
	entries, err := s.cacheEntries(args, dir, env)
	if err != nil {
		return cmdline.Usage(err)
	}
	registry := s.flag("registry")
	if given := env.Service("AGENT_CACHE_REGISTRY"); given != "" && !s.cmd.Flags().Changed("registry") {
		registry = given
	}
	c := &cache.Cache{API: s.API, Registry: s.API.CacheRegistry(registry), Dir: dir, Home: home, Terminal: os.Stderr, Logf: s.logf}
	for _, e := range entries {
		if err := do(c, e); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) cacheEntries(args []string, dir string, env environ.Environment) ([]cache.Entry, error) {
	switch len(args) {
	case 0:
		return cache.Read(s.flagOr("cache-config-file", env.Service("CACHE_CONFIG_FILE")), s.list("name"), dir, env)
	case 1:
		return nil, errors.New("missing argument PATH: what " + strconv.Quote(args[0]) + " is the key of")
	}
	if len(s.list("name")) > 0 {
		return nil, fmt.Errorf("--name takes caches of a file; leave it out, or KEY and PATH")
	}
	e := cache.Entry{Key: []api.CachePart{{Value: args[0], Mandatory: true}}, Paths: args[1:]}
	if files := s.list("checksum"); len(files) > 0 {
		sum, err := cache.Checksum(dir, files)
		if err != nil {
			return nil, fmt.Errorf("--checksum: %w", err)
		}
		e.Key = append(e.Key, api.CachePart{Value: sum})
	}
	return []cache.Entry{e}, nil
}
