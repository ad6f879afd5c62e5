package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func init() { blobChunk = 64 << 10 }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var secret = []byte("correct horse battery staple")

// site is an installation with some blobs, and a place for its backups.
type site struct {
	Source
	place string
}

func newSite(t *testing.T, engine db.Engine) *site {
	t.Helper()
	s := &site{Source: Source{DB: dbtest.New(t, engine), Blobs: folder(t, t.TempDir()), Program: "test"}, place: t.TempDir()}
	s.put(t, "o/p/log", "some log")
	s.put(t, "o/p/large", random(blobChunk*2+17))
	s.put(t, "o/p/empty", "")
	return s
}

func folder(t *testing.T, path string) *blob.Store {
	t.Helper()
	store, err := blob.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func random(n int) string {
	b := make([]byte, n)
	source := rand.NewChaCha8([32]byte{})
	source.Read(b)
	return string(b)
}

func (s *site) put(t *testing.T, key, text string) {
	t.Helper()
	if err := s.Blobs.Put(t.Context(), key, strings.NewReader(text), int64(len(text))); err != nil {
		t.Fatal(err)
	}
}

func (s *site) open(t *testing.T, secret []byte) *Repository {
	t.Helper()
	r, err := Open(t.Context(), folder(t, s.place), secret, true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *site) create(t *testing.T, r *Repository, at time.Time) (*Snapshot, Stats) {
	t.Helper()
	snapshot, stats, err := r.Create(t.Context(), s.Source, at)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot, stats
}

func TestRestore_GivesBackAllBlobs(t *testing.T) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			s := newSite(t, engine)
			r := s.open(t, secret)
			snapshot, _ := s.create(t, r, noon)
			if err := r.Verify(t.Context(), snapshot); err != nil {
				t.Fatal(err)
			}
			to := folder(t, t.TempDir())
			target := dbtest.Open(t, dbtest.EmptyURL(t, engine))
			if _, err := r.Restore(t.Context(), snapshot, target, to); err != nil {
				t.Fatal(err)
			}
			count := 0
			for o, err := range s.Blobs.All(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				count++
				want, _ := readAll(t.Context(), s.Blobs, o.Key)
				got, err := readAll(t.Context(), to, o.Key)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes, want %d, error %v", o.Key, len(got), len(want), err)
				}
			}
			if count != 3 || snapshot.Blobs.Count != 3 {
				t.Errorf("%d blobs, %d in the backup", count, snapshot.Blobs.Count)
			}
			if err := target.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCreate_WritesOnlyWhatIsNew(t *testing.T) {
	s := newSite(t, db.SQLite)
	r := s.open(t, nil)
	_, first := s.create(t, r, noon)
	if first.NewBlobs != 3 || first.Written < int64(2*blobChunk) {
		t.Errorf("the first wrote %+v", first)
	}
	s.put(t, "o/p/another", "more")
	s.put(t, "o/p/log", "other log") // replaced
	second, stats := s.create(t, r, noon.Add(time.Hour))
	if stats.NewBlobs != 2 || stats.Written > 4096 {
		t.Errorf("the second wrote %+v", stats)
	}
	if err := r.Verify(t.Context(), second); err != nil {
		t.Error(err)
	}
}

func TestCreate_ContinuesAfterAnInterruption(t *testing.T) {
	s := newSite(t, db.SQLite)
	r := s.open(t, nil)
	_, first := s.create(t, r, noon)
	// As if the process was killed before it wrote the snapshot.
	if err := os.RemoveAll(filepath.Join(s.place, snapsKey)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Snapshot(t.Context(), "latest"); err == nil {
		t.Fatal("an incomplete backup is shown")
	}
	_, second := s.create(t, r, noon.Add(time.Hour))
	if second.Written != 0 {
		t.Errorf("the first wrote %+v, the second %+v", first, second)
	}
}

func TestRepository_RevealsNothingWithoutItsKey(t *testing.T) {
	s := newSite(t, db.SQLite)
	s.put(t, "o/p/secret", strings.Repeat("hunter2 ", 100))
	r := s.open(t, secret)
	s.SecretKey = "the secret key"
	s.create(t, r, noon)
	err := filepath.WalkDir(s.place, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, text := range []string{"hunter2", "secret", "o/p/log", "organizations"} {
			if bytes.Contains(content, []byte(text)) {
				t.Errorf("%s contains %q", path, text)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string][]byte{"none": nil, "another": []byte("another passphrase"), "short": []byte("short")} {
		if _, err := Open(t.Context(), folder(t, s.place), wrong, false); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func TestVerify_FindsDamage(t *testing.T) {
	for _, key := range [][]byte{nil, secret} {
		s := newSite(t, db.SQLite)
		r := s.open(t, key)
		snapshot, _ := s.create(t, r, noon)
		objects := r.objectsOf(t, snapshot)
		for _, id := range []string{objects[0], objects[len(objects)-1], snapshot.Blobs.Index[0]} {
			path := filepath.Join(s.place, filepath.FromSlash(objectKey(id)))
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for name, damaged := range map[string][]byte{
				"one bit": append(content[:len(content)-1:len(content)-1], content[len(content)-1]^1),
				"cut":     content[:len(content)/2],
				"empty":   {},
			} {
				if err := os.WriteFile(path, damaged, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := r.Verify(t.Context(), snapshot); !errors.Is(err, ErrDamaged) {
					t.Errorf("%s: got error %v", name, err)
				}
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := r.Verify(t.Context(), snapshot); !errors.Is(err, ErrDamaged) {
				t.Errorf("missing: got error %v", err)
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Verify(t.Context(), snapshot); err != nil {
			t.Error(err)
		}
	}
}

// objectsOf returns the ids of a table's and a blob's objects.
func (r *Repository) objectsOf(t *testing.T, s *Snapshot) (ids []string) {
	for _, table := range s.Tables {
		ids = append(ids, table.Chunks...)
	}
	for e, err := range r.entries(t.Context(), s) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.Chunks...)
	}
	return ids
}

func TestRestore_ContinuesOrStartsOver(t *testing.T) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			s := newSite(t, engine)
			r := s.open(t, nil)
			snapshot, _ := s.create(t, r, noon)
			other, _ := s.create(t, r, noon.Add(time.Hour))
			objects := r.objectsOf(t, snapshot)
			path := filepath.Join(s.place, filepath.FromSlash(objectKey(objects[0])))
			// The restore fails at the first table, as if the place was lost.
			if err := os.Rename(path, path+"-away"); err != nil {
				t.Fatal(err)
			}
			to := folder(t, t.TempDir())
			target := dbtest.Open(t, dbtest.EmptyURL(t, engine))
			if _, err := r.Restore(t.Context(), snapshot, target, to); !errors.Is(err, ErrDamaged) {
				t.Fatalf("got error %v", err)
			}
			if err := target.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "partly filled from backup "+snapshot.ID) {
				t.Errorf("a server could start: %v", err)
			}
			if err := os.Rename(path+"-away", path); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Restore(t.Context(), other, target, to); !errors.Is(err, db.ErrOtherLoad) {
				t.Errorf("another backup: got error %v", err)
			}
			done, err := r.Restore(t.Context(), snapshot, target, to)
			if err != nil || !done.Continued || done.KeptBlobs != 3 || done.Blobs != 0 {
				t.Errorf("continued: %+v, error %v", done, err)
			}
			// Restart does nothing to a complete installation.
			if err := Restart(t.Context(), target, to); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Restore(t.Context(), other, target, folder(t, t.TempDir())); !errors.Is(err, db.ErrNotEmpty) {
				t.Errorf("overwritten: %v", err)
			}
		})
	}
}

func TestRestart_LetsAnotherBackupBeRestored(t *testing.T) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			s := newSite(t, engine)
			r := s.open(t, nil)
			snapshot, _ := s.create(t, r, noon)
			to := folder(t, t.TempDir())
			target := dbtest.Open(t, dbtest.EmptyURL(t, engine))
			ctx, cancel := context.WithCancel(t.Context())
			broken := *snapshot
			broken.Tables = append([]Table{}, snapshot.Tables...)
			broken.Tables[0].Chunks = []string{strings.Repeat("0", 64)}
			if _, err := r.Restore(ctx, &broken, target, to); err == nil {
				t.Fatal("restored")
			}
			cancel()
			if err := Restart(t.Context(), target, to); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Restore(t.Context(), snapshot, target, to); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestPrune_KeepsWhatTheNewestNeed(t *testing.T) {
	s := newSite(t, db.SQLite)
	r := s.open(t, secret)
	s.create(t, r, noon)
	if err := s.Blobs.Delete(t.Context(), "o/p/large"); err != nil {
		t.Fatal(err)
	}
	s.create(t, r, noon.Add(time.Hour))
	snapshots, objects, err := r.Prune(t.Context(), 1, time.Now())
	if err != nil || snapshots != 1 || objects < 3 {
		t.Errorf("deleted %d backups and %d objects, error %v", snapshots, objects, err)
	}
	latest, err := r.Snapshot(t.Context(), "latest")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(t.Context(), latest); err != nil {
		t.Error(err)
	}
}

func TestPrune_WaitsForBackupsAndNotForKilledOnes(t *testing.T) {
	s := newSite(t, db.SQLite)
	r := s.open(t, nil)
	s.create(t, r, noon)
	prune := func(after time.Duration) error {
		_, _, err := r.Prune(t.Context(), 1, time.Now().Add(after))
		return err
	}
	_, unlock, err := r.lock(t.Context(), backingUp, noon)
	if err != nil {
		t.Fatal(err)
	}
	if err := prune(0); err == nil || !strings.Contains(err.Error(), "is running; prune when it has ended, or after") {
		t.Errorf("pruned during a backup: %v", err)
	}
	unlock()
	if err := prune(0); err != nil {
		t.Errorf("after a backup: %v", err)
	}
	// Nothing renews the lock of a process that was killed.
	if err := r.store.Put(t.Context(), locksKey+"/"+newID(noon), strings.NewReader("lock"), -1); err != nil {
		t.Fatal(err)
	}
	if err := prune(0); err == nil {
		t.Error("pruned before the lease of a killed backup was over")
	}
	if err := prune(leaseTime); err != nil {
		t.Errorf("after the lease of a killed backup: %v", err)
	}
	if _, unlock, err = r.lock(t.Context(), pruning, noon); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Create(t.Context(), s.Source, time.Now()); err == nil || !strings.Contains(err.Error(), "are being pruned") {
		t.Errorf("a backup while others are pruned: %v", err)
	}
	unlock()
	s.create(t, r, noon)
}

func TestLock_IsRenewedUntilItEnds(t *testing.T) {
	r := newSite(t, db.SQLite).open(t, nil)
	r.renewEvery = time.Millisecond
	written := func() (at time.Time) {
		for o, err := range r.store.List(t.Context(), locksKey) {
			if err != nil {
				t.Fatal(err)
			}
			at = o.Modified
		}
		return at
	}
	_, unlock, err := r.lock(t.Context(), backingUp, noon)
	if err != nil {
		t.Fatal(err)
	}
	for first := written(); !written().After(first); {
		runtime.Gosched()
	}
	unlock()
	if at := written(); !at.IsZero() {
		t.Errorf("the lock of %s is left", at)
	}
}

func TestBackup_IntoABucket(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	if err := backend.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	s := newSite(t, db.SQLite)
	open := func(bucket string) (*Repository, error) {
		return Open(t.Context(), folder(t, fmt.Sprintf("s3://%s/ci?endpoint=%s", bucket, server.URL)), secret, true)
	}
	r, err := open("backups")
	if err != nil {
		t.Fatal(err)
	}
	snapshot, _ := s.create(t, r, noon)
	if err := r.Verify(t.Context(), snapshot); err != nil {
		t.Error(err)
	}
	if _, err := open("missing"); err == nil || !strings.Contains(err.Error(), `has no bucket "missing"; create it, or correct its name`) {
		t.Errorf("a missing bucket: %v", err)
	}
}
