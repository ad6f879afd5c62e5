package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/domain/agentimages"
	"stackyard/internal/domain/machines"
)

// imageReference is the name of an image, with a registry, a tag or a digest, or without.
var imageReference = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9._:/@-]*$`)

// parseImages returns the settings of agent images.
func parseImages(given func(flag string) string, data string) (s agentimages.Settings, err error) {
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--"+flag+": "+format, args...))
	}
	s.Folder = filepath.Join(data, "agent-images")
	switch given("agent-images") {
	case "on", "":
	case "off":
		s.Disabled = true
	default:
		bad("agent-images", "%q is not on or off", given("agent-images"))
	}
	if s.BaseImage = given("agent-base-image"); s.BaseImage != "" && !imageReference.MatchString(s.BaseImage) {
		bad("agent-base-image", "%q is not an image such as docker.io/library/debian:12", s.BaseImage)
	}
	s.Registry = strings.TrimSuffix(given("agent-image-registry"), "/")
	if rest, insecure := strings.CutPrefix(s.Registry, "http://"); insecure {
		s.Registry, s.RegistryInsecure = rest, true
	}
	if s.Registry != "" && (!imageReference.MatchString(s.Registry) || strings.Contains(s.Registry, "@")) {
		bad("agent-image-registry", "%q is not a registry and a path such as registry.example.com/agents", s.Registry)
	}
	if text := given("agent-image-timeout"); text != "" {
		if s.BuildTimeout, err = time.ParseDuration(text); err != nil || s.BuildTimeout < time.Second || s.BuildTimeout > agentimages.MaxBuildTimeout {
			bad("agent-image-timeout", "%q is not a time of at most %s, such as 15m", text, agentimages.MaxBuildTimeout)
		}
	}
	if text := given("agent-image-memory"); text != "" {
		megabytes, err := strconv.ParseInt(text, 10, 32)
		if err != nil || megabytes < 64 {
			bad("agent-image-memory", "%q is not a number of megabytes of at least 64", text)
		}
		s.BuildMemory = megabytes << 20
	}
	if text := given("agent-image-disk"); text != "" {
		megabytes, err := strconv.ParseInt(text, 10, 32)
		if err != nil || megabytes < 64 {
			bad("agent-image-disk", "%q is not a number of megabytes of at least 64", text)
		}
		s.BuildDisk = megabytes << 20
	}
	return s, errors.Join(errs...)
}

// parsePlaces returns the machines of the remote provider, and how many agents they run at once.
func parsePlaces(path string) (places []machines.Place, capacity int, err error) {
	if path == "" {
		return nil, 0, errors.New("is required with --hosted-provider remote")
	}
	places, err = machines.ReadPlaces(path)
	for _, p := range places {
		capacity += p.Capacity
	}
	return places, capacity, err
}

// parseMachines returns the settings of hosted agents.
func parseMachines(given func(flag string) string, data string) (s machines.Settings, err error) {
	var errs []error
	number := func(flag string, least int) int {
		n, err := strconv.Atoi(given(flag))
		if given(flag) != "" && (err != nil || n < least || n > 1000) {
			errs = append(errs, fmt.Errorf("--%s: %q is not a number from %d to 1000", flag, given(flag), least))
		}
		return n
	}
	s.Max, s.Warm = number("hosted-max", 1), number("hosted-warm", 0)
	switch list := given("hosted-machines"); given("hosted-provider") {
	case "local":
	case "remote":
		if s.Places, s.Max, err = parsePlaces(list); err != nil {
			errs = append(errs, fmt.Errorf("--hosted-machines: %w", err))
		}
	case "none", "":
		s.Max = 0
	default:
		errs = append(errs, fmt.Errorf("--hosted-provider: %q is not local, remote or none", given("hosted-provider")))
	}
	if s.Program, err = os.Executable(); err != nil {
		errs = append(errs, err)
	}
	folder, err := filepath.Abs(data)
	if err != nil {
		errs = append(errs, err)
	}
	s.Hidden = []string{folder}
	return s, errors.Join(errs...)
}
