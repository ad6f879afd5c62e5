package testresults

import (
	"context"
	"net/http"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/suites"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/testreport"
)

const uploadsPath = "/v1/uploads"

// uploadTimeout is how long a client may take to send an upload.
const uploadTimeout = 2 * time.Minute

func (s *Service) uploadRoutes() []route.Route {
	return []route.Route{{
		Method: http.MethodPost, Path: uploadsPath, Tag: "Test results", Summary: "Upload test results",
		Description: "Takes JSON as test collectors send it, with run_env and data, or multipart/form-data with a file called data, which is JSON or JUnit XML, and fields called format and run_env[…]. " +
			"The body may be compressed with gzip. Send the API token of a suite as `Authorization: Token token=\"…\"` or as a bearer token; a job can send an OpenID Connect token that the suite's oidc_policy allows. " +
			"Uploads with the same run_env.key make one run.",
		Auth:    route.Open,
		Query:   []route.Param{{Name: "format", Doc: "json or junit, where the body does not say it."}, {Name: "run_env[key]", Doc: "A field of run_env, where the body does not have it."}},
		Status:  http.StatusAccepted,
		Errors:  []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
		Handler: route.Do(s.postUpload),
	}}
}

// uploadView is the answer to an upload. Published collectors decode several forms of it, so it has the fields of all.
type uploadView struct {
	ID        string   `json:"id"`
	UploadID  string   `json:"upload_id" doc:"The same as id."`
	UploadURL string   `json:"upload_url" doc:"The page of the run."`
	RunID     string   `json:"run_id"`
	RunURL    string   `json:"run_url"`
	Queued    int      `json:"queued" doc:"Results that were saved."`
	Skipped   int      `json:"skipped" doc:"Results that could not be used, or that were uploaded before."`
	Errors    []string `json:"errors" doc:"Why results could not be used, for the first of them."`
}

// A target is the suite that results are uploaded to.
type target struct {
	org   *identity.Organization
	suite *suites.Suite
	jobID string // of the job whose token was used; "": the token is that of the suite
}

func (s *Service) postUpload(r *route.Request) (uploadView, error) {
	to, err := s.authenticate(r)
	if err != nil {
		if core.KindOf(err) == core.Unauthorized {
			r.SetHeader("WWW-Authenticate", `Token realm="Stackyard"`)
		}
		return uploadView{}, err
	}
	leave, err := s.gate.enter(r.Context(), to.org.ID, uploadPatience)
	if err != nil {
		return uploadView{}, err
	}
	defer leave()
	compressed := strings.EqualFold(strings.TrimSpace(r.Header.Get("Content-Encoding")), "gzip")
	report, err := testreport.Read(r.Header.Get("Content-Type"), compressed, r.URL.Query(), r.OpenBody(testreport.MaxBody, uploadTimeout))
	if err != nil {
		return uploadView{}, err
	}
	saved, err := s.save(r.Context(), to, report)
	if err != nil {
		return uploadView{}, err
	}
	page := suites.WebURL(s.public, to.org, to.suite.Slug, "runs", saved.runID)
	v := uploadView{
		ID: saved.id, UploadID: saved.id, UploadURL: page, RunID: saved.runID, RunURL: page,
		Queued: len(report.Executions), Skipped: report.Skipped, Errors: append([]string{}, report.Errors...),
	}
	if saved.repeated {
		v.Queued, v.Skipped = 0, len(report.Executions)+report.Skipped
		v.Errors = append(v.Errors, "these results were uploaded before")
	}
	return v, nil
}

// authenticate returns the suite that the caller can upload to.
func (s *Service) authenticate(r *route.Request) (to target, err error) {
	token := uploadToken(r.Header.Get("Authorization"))
	if strings.Count(token, ".") == 2 {
		to, err = s.authenticateJob(r.Context(), token)
	} else {
		err = s.db.Read(r.Context(), func(q *db.Q) error {
			to.suite, err = suites.ByToken(q, token)
			return err
		})
		if err == nil {
			to.org, err = s.directory.OrganizationByID(r.Context(), to.suite.OrganizationID)
		}
	}
	if err != nil {
		return to, err
	}
	if to.org.Suspended {
		return to, &core.Error{Kind: core.Unavailable, Message: "This organization is temporarily unavailable", RetryAfter: 60}
	}
	return to, nil
}

// uploadToken returns the token of an Authorization header: Token token="…", Token …, or Bearer ….
func uploadToken(header string) string {
	scheme, value, _ := strings.Cut(header, " ")
	value = strings.TrimSpace(value)
	switch strings.ToLower(scheme) {
	case "bearer":
		return value
	case "token": // other parameters may follow
		value, _, _ = strings.Cut(strings.TrimPrefix(value, "token="), ",")
		return strings.Trim(strings.TrimSpace(value), `"`)
	}
	return ""
}

// authenticateJob returns the suite that an OpenID Connect token is for, if the suite's policy allows the token to upload.
func (s *Service) authenticateJob(ctx context.Context, token string) (to target, err error) {
	claims, err := s.verify(ctx, token)
	if err != nil {
		return to, err
	}
	slug, _ := claims["organization_slug"].(string)
	if to.org, err = s.directory.Organization(ctx, slug); err != nil {
		return to, err
	}
	err = s.db.Read(ctx, func(q *db.Q) error {
		to.suite, err = suites.InOrganization(q, to.org.ID, s.suiteOf(to.org, claims["aud"]))
		return err
	})
	if core.KindOf(err) == core.NotFound {
		return to, core.Errorf(core.Forbidden, "Forbidden: the audience of the OpenID Connect token must be the URL of a suite, such as %s", suites.WebURL(s.public, to.org, "SUITE"))
	}
	if err != nil {
		return to, err
	}
	policy, err := to.suite.Policy.Parse()
	if err != nil || !policy.Permits(suites.WriteUploads, claims) {
		return to, core.Errorf(core.Forbidden, "Forbidden: the oidc_policy of the suite does not allow this OpenID Connect token to upload results")
	}
	to.jobID, _ = claims["job_id"].(string)
	return to, nil
}

// suiteOf returns the slug of the suite that one of a token's audiences is the URL of, or "".
func (s *Service) suiteOf(org *identity.Organization, audience any) string {
	var audiences []any
	switch a := audience.(type) {
	case string:
		audiences = []any{a}
	case []any:
		audiences = a
	}
	for _, base := range []string{suites.WebURL(s.public, org, ""), suites.URL(s.public, org, "")} {
		for _, a := range audiences {
			text, _ := a.(string)
			if slug, ok := strings.CutPrefix(strings.TrimSuffix(text, "/"), base); ok && slug != "" {
				return slug
			}
		}
	}
	return ""
}

// A link is the build that a run belongs to; zero for none.
type link struct{ buildID, pipelineID string }

// linkOf returns the build that an upload is about: that of the job whose token was used, the one whose id is the key of
// the run, or that of the job that the upload names.
func (s *Service) linkOf(ctx context.Context, to target, run testreport.Run) (l link, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		l = link{}
		key, _ := core.ParseID(run.Key)
		for _, find := range []func() (string, error){
			func() (string, error) { return buildOfJob(q, to.org.ID, to.jobID) },
			func() (string, error) { return key, nil },
			func() (string, error) { return buildOfJob(q, to.org.ID, run.JobID) },
		} {
			id, err := find()
			if err != nil {
				return err
			}
			if id == "" {
				continue
			}
			pipelineID, err := builds.PipelineOf(q, to.org.ID, id)
			if err == nil {
				l = link{id, pipelineID}
				return nil
			}
			if core.KindOf(err) != core.NotFound {
				return err
			}
		}
		return nil
	})
	return l, err
}

// buildOfJob returns the id of the build of a job, or "" when there is no such job.
func buildOfJob(q *db.Q, orgID, jobID string) (string, error) {
	id, ok := core.ParseID(jobID)
	if !ok {
		return "", nil
	}
	buildID, err := builds.BuildIDOf(q, orgID, id)
	if core.KindOf(err) == core.NotFound {
		return "", nil
	}
	return buildID, err
}
