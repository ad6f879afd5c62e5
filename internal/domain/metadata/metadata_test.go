package metadata_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/platform/core"
)

// A fixture has a build of acme whose meta-data has the value 1 under the key a.
type fixture struct {
	*servertest.Scenario
	builds *lifecycle.Service
	build  string
}

func each(t *testing.T, fn func(t *testing.T, f *fixture)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		f := &fixture{Scenario: s.Scenario(t), builds: s.Builds()}
		f.build = f.Ada.Post(servertest.HelloPath+"/builds", map[string]any{
			"commit": "HEAD", "branch": "main", "meta_data": map[string]any{"a": "1"},
		}).Want(http.StatusCreated).String("id")
		fn(t, f)
	})
}

// set sets values of the build; pairs alternate keys and values.
func (f *fixture) set(pairs ...string) error {
	var entries []metadata.Entry
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, metadata.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return f.builds.SetMetaData(f.T.Context(), f.OrgID, f.build, entries)
}

func (f *fixture) wantKeys(want string) {
	f.T.Helper()
	keys, err := f.builds.MetaDataKeys(f.T.Context(), f.OrgID, f.build)
	f.WantNoError(err)
	servertest.WantEqual(f.T, "keys", strings.Join(keys, " "), want)
}

func TestSet_KeepsTheLastValueOfEachKey(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.WantNoError(f.set("b", "2", "a", "3", "b", "4", "empty", ""))
		f.wantKeys("a b empty")
		for key, want := range map[string]string{"a": "3", "b": "4", "empty": ""} {
			value, ok, err := f.builds.MetaData(t.Context(), f.OrgID, f.build, key)
			f.WantNoError(err)
			servertest.WantEqual(t, key, fmt.Sprint(value, ok), fmt.Sprint(want, true))
		}
		_, ok, err := f.builds.MetaData(t.Context(), f.OrgID, f.build, "none")
		f.WantNoError(err)
		servertest.WantEqual(t, "an unset key", ok, false)
		shown := f.Ada.Get(servertest.HelloPath + "/builds/1").Want(http.StatusOK)
		servertest.WantAt(t, shown, map[string]any{"meta_data.a": "3"})
	})
}

func TestSet_TakesAllOrNothing(t *testing.T) {
	large := strings.Repeat("x", metadata.MaxValue)
	var manyKeys, manyBytes []string
	for i := range 1000 {
		manyKeys = append(manyKeys, fmt.Sprint("key", i), "x")
	}
	for i := range 42 {
		manyBytes = append(manyBytes, fmt.Sprint("key", i), large)
	}
	each(t, func(t *testing.T, f *fixture) {
		for name, c := range map[string]struct {
			pairs []string
			text  string
		}{
			"no key":       {[]string{"b", "1", "", "2"}, "must have 1 to 255 characters, not 0"},
			"a long key":   {[]string{"b", "1", strings.Repeat("ä", 256), "2"}, "not 256"},
			"a long value": {[]string{"b", "1", "c", large + "x"}, `"c" has 100001 bytes`},
			"many keys":    {manyKeys, "1001 meta-data keys"},
			"many bytes":   {manyBytes, "bytes of meta-data"},
		} {
			err := f.set(c.pairs...)
			if core.KindOf(err) != core.Unprocessable || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: got the error %v, want %q", name, err, c.text)
			}
		}
		f.wantKeys("a")
	})
}

func TestSet_LosesNothingWhenManySetAtOnce(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if err := f.set(fmt.Sprint("own", i), "x", "shared", "x", "another", "y"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		keys, err := f.builds.MetaDataKeys(t.Context(), f.OrgID, f.build)
		f.WantNoError(err)
		servertest.WantEqual(t, "keys", len(keys), 23)
	})
}

func TestGet_IsRestrictedToTheOrganization(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		rival := f.OrganizationID(t, "rival")
		_, ok, err := f.builds.MetaData(t.Context(), rival, f.build, "a")
		f.WantNoError(err)
		servertest.WantEqual(t, "seen", ok, false)
		keys, err := f.builds.MetaDataKeys(t.Context(), rival, f.build)
		f.WantNoError(err)
		servertest.WantEqual(t, "keys", len(keys), 0)
		err = f.builds.SetMetaData(t.Context(), rival, f.build, []metadata.Entry{{Key: "a", Value: "2"}})
		if core.KindOf(err) != core.NotFound {
			t.Errorf("got %v", err)
		}
	})
}
