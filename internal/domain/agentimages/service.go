package agentimages

import (
	"context"
	"strings"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// create adds an image and its first build.
func (s *Service) create(ctx context.Context, image Image) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		// The lock lets one of two images get a name, and keeps them from exceeding the limit together.
		if _, err := clusters.Lock(q, image.OrganizationID, image.ClusterID); err != nil {
			return err
		}
		if err := checkName(q, &image); err != nil {
			return err
		}
		n, err := db.Count(q, `SELECT COUNT(*) FROM agent_images WHERE cluster_id = $1`, image.ClusterID)
		if err != nil {
			return err
		}
		if n >= maxImages {
			return core.Errorf(core.Unprocessable, "The cluster has %d agent images, the most that are possible; delete one first", n)
		}
		if err := save(q, image); err != nil {
			return err
		}
		return s.addBuild(q, &image)
	})
}

// update changes an image. A Dockerfile starts a build of the next version.
func (s *Service) update(ctx context.Context, image Image, body imageFields) (updated Image, err error) {
	err = s.db.Write(ctx, func(q *db.Q) error {
		if _, err := clusters.Lock(q, image.OrganizationID, image.ClusterID); err != nil {
			return err
		}
		i, err := byID(q, image.ClusterID, image.ID)
		if err != nil {
			return err
		}
		if body.Dockerfile.Set {
			i.BaseImage, i.Status, i.LastError = s.fromLine(), Building, ""
			i.Version++
		}
		if err := body.applyTo(&i); err != nil {
			return err
		}
		if err := checkName(q, &i); err != nil {
			return err
		}
		i.UpdatedAt = s.clock()
		if err := save(q, i); err != nil {
			return err
		}
		updated = i
		if !body.Dockerfile.Set {
			return nil
		}
		return s.addBuild(q, &i)
	})
	return updated, err
}

// checkName returns a Conflict error if another image of the cluster has the name. The caller has locked the cluster.
func checkName(q *db.Q, image *Image) error {
	n, err := db.Count(q, `SELECT COUNT(*) FROM agent_images WHERE cluster_id = $1 AND name = $2 AND id <> $3`, image.ClusterID, image.Name, image.ID)
	if err == nil && n > 0 {
		err = core.Errorf(core.Conflict, "An agent image with the name %q already exists in this cluster", image.Name)
	}
	return err
}

// delete removes an image that no queue uses. Its real images are removed in the background.
func (s *Service) delete(ctx context.Context, image Image) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		if _, err := clusters.Lock(q, image.OrganizationID, image.ClusterID); err != nil {
			return err
		}
		i, err := byID(q, image.ClusterID, image.ID)
		if err != nil {
			return err
		}
		if i.ImageRef != "" {
			queues, err := clusters.QueuesWithImage(q, i.ClusterID, i.ImageRef)
			if err != nil {
				return err
			}
			if len(queues) > 0 {
				return core.Errorf(core.Conflict, "The agent image %q is assigned to queues (%s); assign another image to them first", i.Name, strings.Join(queues, ", "))
			}
		}
		if _, err := imageRows.Exec(q, i.ID, `DELETE FROM agent_images WHERE id = $1`, i.ID); err != nil {
			return err
		}
		return s.removeBuilds(q, i.ID, "")
	})
}

// checkAssignable returns an error if a queue of a cluster cannot use an image reference: it is the reference of
// an image of this installation that is not a ready image of the cluster. References of other registries are not
// checked.
func (s *Service) checkAssignable(q *db.Q, c clusters.Cluster, ref string) error {
	own, err := db.Count(q, `SELECT COUNT(*) FROM agent_images WHERE cluster_id = $1 AND image_ref = $2`, c.ID, ref)
	if err != nil || own > 0 {
		return err
	}
	foreign, err := db.Count(q, `SELECT COUNT(*) FROM agent_image_builds WHERE image_ref = $1`, ref)
	if err != nil || foreign == 0 && !strings.HasPrefix(ref, s.refPrefix()) {
		return err
	}
	var problems core.Problems
	problems.Add("hostedAgents.agentImageRef", "must be the image_ref of an agent image of this cluster that is READY, or an image of another registry")
	return problems.Err()
}
