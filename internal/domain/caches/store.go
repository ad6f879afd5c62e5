package caches

import (
	"encoding/json"
	"errors"
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const selectEntry = `
	SELECT id, organization_id, pipeline_id, scope, protected, store, key, blobs, size, finished, created_at
	FROM cache_entries`

func scanEntry(scan db.Scan) (*Entry, error) {
	e, blobs := &Entry{}, ""
	if err := scan(&e.ID, &e.OrganizationID, &e.PipelineID, &e.Scope, &e.Protected, &e.Store, &e.Key, &blobs, &e.Size, &e.Finished, db.ToTime(&e.CreatedAt)); err != nil {
		return nil, err
	}
	return e, json.Unmarshal([]byte(blobs), &e.Blobs)
}

// entries returns entries that match a condition.
func entries(q *db.Q, where string, args ...any) ([]*Entry, error) {
	return db.All(q, scanEntry, selectEntry+` WHERE `+where, args...)
}

// one returns the first entry that matches a condition; nil: none.
func one(q *db.Q, where string, args ...any) (*Entry, error) {
	e, err := db.One(q, scanEntry, selectEntry+` WHERE `+where, args...)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return e, err
}

// find returns the best entry for an address that a scope finds, and whether it has another key, or errNoEntry. A better scope comes before a better
// key, except that an equal key comes first.
func find(q *db.Q, scope Scope, a Address) (*Entry, bool, error) {
	for _, in := range scope.Finds {
		if e, err := exact(q, scope.PipelineID, in, a); err != nil || e != nil {
			return e, false, err
		}
	}
	for _, prefix := range a.prefixes() {
		for _, in := range scope.Finds {
			// A pipeline has few entries, so the index need not have the key.
			e, err := one(q, `pipeline_id = $1 AND scope = $2 AND paths = $3 AND finished AND key LIKE $4 ESCAPE '\' ORDER BY created_at DESC, id DESC LIMIT 1`,
				scope.PipelineID, in, a.pathsDigest(), db.Like(prefix)+"%")
			if err != nil || e != nil {
				return e, true, err
			}
		}
	}
	return nil, false, errNoEntry
}

// exact returns the finished entry of an address in a scope; nil: none.
func exact(q *db.Q, pipelineID, scope string, a Address) (*Entry, error) {
	return one(q, `pipeline_id = $1 AND scope = $2 AND address = $3 AND finished`, pipelineID, scope, a.digest())
}

// digest returns the digest of the whole address.
func (a *Address) digest() string { return digest([]string{a.pathsDigest(), a.key()}) }

func hasEntry(q *db.Q, e *Entry, a Address) (bool, error) {
	found, err := exact(q, e.PipelineID, e.Scope, a)
	return found != nil, err
}

// entryOf returns an entry of a pipeline, or a NotFound error.
func entryOf(q *db.Q, pipelineID, id string) (*Entry, error) {
	e, err := one(q, `id = $1 AND pipeline_id = $2`, id, pipelineID)
	if err == nil && e == nil {
		err = errNoUpload
	}
	return e, err
}

// usedBefore reports whether an entry was last used before a time.
func usedBefore(q *db.Q, id string, at time.Time) (before bool, err error) {
	err = q.QueryRow(`SELECT used_at < $2 FROM cache_entries WHERE id = $1`, id, db.Micros(at)).Scan(&before)
	return before, err
}

func setUsed(q *db.Q, id string, now time.Time) error {
	_, err := q.Exec(`UPDATE cache_entries SET used_at = $2 WHERE id = $1`, id, db.Micros(now))
	return err
}

// unfinished returns how many bytes an organization is uploading, and in how many entries.
func unfinished(q *db.Q, orgID string) (bytes, count int64, err error) {
	err = q.QueryRow(`SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT), COUNT(*) FROM cache_entries WHERE organization_id = $1 AND NOT finished`, orgID).Scan(&bytes, &count)
	return bytes, count, err
}

func insertEntry(q *db.Q, e *Entry, a Address) error {
	blobs, err := json.Marshal(e.Blobs)
	if err != nil {
		return err
	}
	_, err = q.Exec(`
		INSERT INTO cache_entries (id, organization_id, pipeline_id, scope, protected, store, address, paths, key, blobs, size, finished, created_at, used_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, FALSE, $12, $12)`,
		e.ID, e.OrganizationID, e.PipelineID, e.Scope, e.Protected, e.Store, a.digest(), a.pathsDigest(), e.Key, string(blobs), e.Size, db.Micros(e.CreatedAt))
	return err
}

// finish marks an entry as complete, unless another one has its address.
func finish(q *db.Q, e *Entry) (bool, error) {
	n, err := q.Exec(`
		UPDATE cache_entries SET finished = TRUE
		WHERE id = $1 AND NOT EXISTS (
			SELECT 1 FROM cache_entries o
			WHERE o.pipeline_id = cache_entries.pipeline_id AND o.scope = cache_entries.scope AND o.address = cache_entries.address AND o.finished)`, e.ID)
	return n == 1, err
}

const selectBlob = `SELECT b.id, b.organization_id, b.pipeline_id, b.digest, b.size, b.stored FROM cache_blobs b`

func scanBlob(scan db.Scan) (b Stored, err error) {
	return b, scan(&b.ID, &b.OrganizationID, &b.PipelineID, &b.Digest, &b.Size, &b.Stored)
}

func blobByID(q *db.Q, id string) (Stored, error) {
	b, err := db.One(q, scanBlob, selectBlob+` WHERE b.id = $1`, id)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, "No piece of a cache found")
	}
	return b, err
}

// blobsOf returns the blobs of an entry in their order.
func blobsOf(q *db.Q, entryID string) ([]Stored, error) {
	return db.All(q, scanBlob, selectBlob+` JOIN cache_entry_blobs e ON e.blob_id = b.id WHERE e.entry_id = $1 ORDER BY e.position`, entryID)
}

func missingBlobs(q *db.Q, entryID string) (missing int, err error) {
	err = q.QueryRow(`SELECT COUNT(*) FROM cache_entry_blobs e JOIN cache_blobs b ON b.id = e.blob_id WHERE e.entry_id = $1 AND NOT b.stored`, entryID).Scan(&missing)
	return missing, err
}

// linkBlobs links an entry with its blobs, creates those that the pipeline does not have, and returns those without bytes by position. The
// caller holds the lock of the pipeline.
func linkBlobs(q *db.Q, e *Entry) (map[int]Stored, error) {
	var digests []string
	for _, b := range e.Blobs {
		digests = append(digests, b.Digest.Value)
	}
	in, arg := q.In("b.digest", 2, digests)
	found, err := db.All(q, scanBlob, selectBlob+` WHERE b.pipeline_id = $1 AND `+in, e.PipelineID, arg)
	if err != nil {
		return nil, err
	}
	known := map[string]Stored{}
	for _, b := range found {
		known[b.Digest] = b
	}
	var created []Stored
	missing, listed := map[int]Stored{}, map[string]bool{}
	for i, b := range e.Blobs {
		at, ok := known[b.Digest.Value]
		if !ok {
			at = Stored{ID: core.NewID(), OrganizationID: e.OrganizationID, PipelineID: e.PipelineID, Digest: b.Digest.Value, Size: b.Size}
			known[at.Digest] = at
			created = append(created, at)
		}
		if at.Size != b.Size {
			return nil, core.Errorf(core.Unprocessable, "The blob %s has %d bytes, not %d", at.Digest, at.Size, b.Size)
		}
		if !at.Stored && !listed[at.Digest] {
			missing[i], listed[at.Digest] = at, true
		}
	}
	err = db.InsertMany(q, `INSERT INTO cache_blobs (id, organization_id, pipeline_id, digest, size, stored)`, created, func(b Stored) []any {
		return []any{b.ID, b.OrganizationID, b.PipelineID, b.Digest, b.Size, false}
	}, "")
	if err != nil {
		return nil, err
	}
	type link struct {
		position int
		blobID   string
	}
	links := make([]link, len(e.Blobs))
	for i, b := range e.Blobs {
		links[i] = link{i, known[b.Digest.Value].ID}
	}
	return missing, db.InsertMany(q, `INSERT INTO cache_entry_blobs (entry_id, position, blob_id)`, links, func(l link) []any { return []any{e.ID, l.position, l.blobID} }, "")
}

// removeEntries removes entries, and blobs that no other entry has; their bytes in the background. The caller holds the locks of the
// pipelines.
func removeEntries(q *db.Q, list []*Entry, now time.Time) error {
	freed := map[string]usage.Stored{}
	for _, e := range list {
		blobs, err := blobsOf(q, e.ID)
		if err != nil {
			return err
		}
		if _, err := q.Exec(`DELETE FROM cache_entries WHERE id = $1`, e.ID); err != nil {
			return err
		}
		for _, b := range blobs {
			n, err := q.Exec(`DELETE FROM cache_blobs WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM cache_entry_blobs e WHERE e.blob_id = cache_blobs.id)`, b.ID)
			if err != nil {
				return err
			}
			if n == 0 {
				continue // in use, or listed twice
			}
			if err := pipelines.RemoveBytes(q, b.Prefix(), now); err != nil {
				return err
			}
			if b.Stored {
				total := freed[b.OrganizationID]
				freed[b.OrganizationID] = usage.Stored{Bytes: total.Bytes - b.Size, Objects: total.Objects - 1}
			}
		}
	}
	for orgID, s := range freed {
		if err := usage.Add(q, orgID, usage.Caches, s); err != nil {
			return err
		}
	}
	return nil
}
