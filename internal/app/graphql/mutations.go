package graphql

import (
	"context"
	"encoding/json"
	"net/http"

	gql "github.com/graph-gophers/graphql-go"

	"stackyard/internal/platform/core"
)

// A payload repeats the id that a client gave to its mutation.
type payload struct{ id *string }

func (p payload) ClientMutationID() *string { return p.id }

// inOrganizations calls a route of the organization that has an object: ids do not say which it is. missing is the
// message if none has it.
func inOrganizations(ctx context.Context, method, path string, body, into any, missing string) (*organization, error) {
	orgs, err := organizations(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range orgs {
		org := &organization{o}
		_, err := callsOf(ctx).call(method, org.path(path), body, into)
		if core.KindOf(err) == core.NotFound && len(orgs) > 1 {
			continue
		}
		return org, err
	}
	return nil, core.Errorf(core.NotFound, "%s", missing)
}

type jobCancelPayload struct {
	payload
	job *job
}

func (p *jobCancelPayload) JobTypeCommand() *job { return p.job }

func (q *query) JobTypeCommandCancel(ctx context.Context, args struct {
	Input struct {
		ClientMutationID *string
		ID               gql.ID
	}
}) (*jobCancelPayload, error) {
	uuid, err := wanted(args.Input.ID, "JobTypeCommand", "No job found")
	if err != nil {
		return nil, err
	}
	var j restJob
	org, err := inOrganizations(ctx, http.MethodPut, "/jobs/"+uuid+"/cancel", nil, &j, "No job found")
	if err != nil {
		return nil, err
	}
	return &jobCancelPayload{payload{args.Input.ClientMutationID}, &job{j, org}}, nil
}

// block is a job of a block step.
type block struct{ j restJob }

func (b *block) ID() gql.ID          { return idOf("JobTypeBlock", b.j.ID) }
func (b *block) UUID() string        { return b.j.ID }
func (b *block) Label() *string      { return &b.j.Label }
func (b *block) State() string       { return jobState(b.j.State) }
func (b *block) IsUnblockable() bool { return b.j.Unblockable }

type unblockPayload struct {
	payload
	block *block
}

func (p *unblockPayload) JobTypeBlock() *block { return p.block }

func (q *query) JobTypeBlockUnblock(ctx context.Context, args struct {
	Input struct {
		ClientMutationID *string
		ID               gql.ID
		Fields           *string
	}
}) (*unblockPayload, error) {
	uuid, err := wanted(args.Input.ID, "JobTypeBlock", "No job found")
	if err != nil {
		return nil, err
	}
	body := map[string]any{}
	if args.Input.Fields != nil && *args.Input.Fields != "" {
		var fields map[string]any
		if err := json.Unmarshal([]byte(*args.Input.Fields), &fields); err != nil {
			return nil, core.Errorf(core.BadRequest, "fields must be a JSON object")
		}
		body["fields"] = fields
	}
	var j restJob
	if _, err := inOrganizations(ctx, http.MethodPut, "/jobs/"+uuid+"/unblock", body, &j, "No job found"); err != nil {
		return nil, err
	}
	return &unblockPayload{payload{args.Input.ClientMutationID}, &block{j}}, nil
}

// maxInvitations limits the people whom one mutation invites.
const maxInvitations = 20

type invitePayload struct {
	payload
	links []string
}

func (p *invitePayload) InvitationLinks() []string { return p.links }

func (q *query) OrganizationInvitationCreate(ctx context.Context, args struct {
	Input struct {
		ClientMutationID *string
		OrganizationID   gql.ID
		Emails           []string
		Role             *string
	}
}) (*invitePayload, error) {
	uuid, err := wanted(args.Input.OrganizationID, "Organization", "No organization found")
	if err != nil {
		return nil, err
	}
	if n := len(args.Input.Emails); n == 0 || n > maxInvitations {
		return nil, core.Errorf(core.BadRequest, "emails must have from 1 to %d addresses", maxInvitations)
	}
	orgs, err := organizations(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range orgs {
		if o.ID == uuid {
			return invite(ctx, &organization{o}, args.Input.ClientMutationID, args.Input.Emails, args.Input.Role)
		}
	}
	return nil, core.Errorf(core.NotFound, "No organization found")
}

func invite(ctx context.Context, org *organization, id *string, emails []string, role *string) (*invitePayload, error) {
	done := &invitePayload{payload: payload{id}, links: []string{}}
	for _, email := range emails {
		body := map[string]string{"email": email}
		if role != nil && *role == "ADMIN" {
			body["role"] = "admin"
		}
		var invitation struct {
			Link string `json:"accept_url"`
		}
		if _, err := callsOf(ctx).call(http.MethodPost, org.path("/invitations"), body, &invitation); err != nil {
			return nil, err
		}
		done.links = append(done.links, invitation.Link)
	}
	return done, nil
}

type webhookPayload struct {
	payload
	pipeline gql.ID
}

func (p *webhookPayload) PipelineID() gql.ID { return p.pipeline }

// pipelinePages limits the pages of pipelines that are searched for an id.
const pipelinePages = 20

func (q *query) PipelineCreateWebhook(ctx context.Context, args struct {
	Input struct {
		ClientMutationID *string
		ID               gql.ID
	}
}) (*webhookPayload, error) {
	uuid, err := wanted(args.Input.ID, "Pipeline", "No pipeline found")
	if err != nil {
		return nil, err
	}
	orgs, err := organizations(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range orgs {
		org := &organization{o}
		slug, err := pipelineSlug(ctx, org, uuid)
		if err != nil {
			return nil, err
		}
		if slug == "" {
			continue
		}
		if _, err := callsOf(ctx).call(http.MethodPost, org.path("/pipelines/"+slug+"/webhook"), nil, nil); err != nil {
			return nil, err
		}
		return &webhookPayload{payload{args.Input.ClientMutationID}, idOf("Pipeline", uuid)}, nil
	}
	return nil, core.Errorf(core.NotFound, "No pipeline found")
}

// pipelineSlug returns the slug of a pipeline of an organization, or "".
func pipelineSlug(ctx context.Context, org *organization, uuid string) (string, error) {
	for p := (page{1, maxPage}); ; p.number++ {
		var list []struct{ ID, Slug string }
		next, err := callsOf(ctx).get(org.path("/pipelines")+p.query(), &list)
		if err != nil {
			return "", err
		}
		for _, pipeline := range list {
			if pipeline.ID == uuid {
				return pipeline.Slug, nil
			}
		}
		if !next.After || p.number == pipelinePages {
			return "", nil
		}
	}
}
