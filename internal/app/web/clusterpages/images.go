package clusterpages

import (
	"net/http"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) imageRoutes() []route.Route {
	const all, one = "/clusters/{cluster}/agent-images", "/clusters/{cluster}/agent-images/{image}"
	load := loader[image](s, "agent-images", "image")
	return []route.Route{
		s.get(all, pages.On(s.within, s.images)),
		s.post(all, pages.On(s.within, s.createImage)),
		s.get(one, pages.On(load, s.image)),
		s.post(one, pages.On(load, s.changeImage)),
		s.post(one+"/delete", pages.On(load, s.deleteImage)),
	}
}

// An image is an agent image in a response.
type image struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Status     string    `json:"status"`
	Ref        *string   `json:"image_ref"`
	Version    int       `json:"version"`
	LastError  *string   `json:"last_build_error"`
	Dockerfile string    `json:"dockerfile"`
	BaseImage  string    `json:"base_image"`
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

// Class returns the class of the badge of the image's status.
func (i image) Class() string {
	switch i.Status {
	case "READY":
		return "good"
	case "FAILED":
		return "bad"
	}
	return "busy"
}

func (s *Site) imageForm(in inCluster) pages.Form {
	return pages.Form{ID: "new", Action: in.At("agent-images"), Submit: "Create image", Fields: []pages.Field{
		{Name: "name", Label: "Name", Required: true},
		{Name: "dockerfile", Label: "Dockerfile", Kind: pages.CodeField, Required: true, Hint: "Without FROM: the image starts from the base image of hosted agents.", Placeholder: "RUN apt-get update && apt-get install -y jq"},
	}}
}

func (s *Site) images(v *pages.Visit, in inCluster) error {
	return s.showImages(v, http.StatusOK, in, s.imageForm(in))
}

func (s *Site) showImages(v *pages.Visit, status int, in inCluster, form pages.Form) error {
	var list []image
	_, err := v.Call("GET", v.API("clusters", in.Cluster.ID, "agent-images"), nil, &list)
	available := err == nil
	if k := core.KindOf(err); err != nil && k != core.Forbidden && k != core.Unprocessable && k != core.NotFound {
		return err
	}
	why := ""
	if err != nil {
		why = err.Error()
	}
	return in.show(v, status, "images", "images", "Agent images", struct {
		inCluster
		Images    []image
		Available bool
		Why       string
		New       pages.Form
		MayCreate bool
	}{in, list, available, why, form, v.Member.Can(identity.ManageHostedAgents, v.Org)})
}

func (s *Site) createImage(v *pages.Visit, in inCluster) error {
	return v.Submit(s.imageForm(in), "POST", v.API("clusters", in.Cluster.ID, "agent-images"), in.At("agent-images"), "Image created. It is being built.", func(f pages.Form) error {
		return s.showImages(v, http.StatusUnprocessableEntity, in, f)
	})
}

func editImageForm(in inCluster, i image) pages.Form {
	return pages.Form{ID: "edit", Action: in.At("agent-images", i.ID), Submit: "Save and build", Fields: []pages.Field{
		{Name: "name", Label: "Name", Required: true, Value: i.Name},
		{Name: "dockerfile", Label: "Dockerfile", Kind: pages.CodeField, Required: true, Value: i.Dockerfile},
	}}
}

func (s *Site) image(v *pages.Visit, on resource[image]) error {
	return s.showImage(v, http.StatusOK, on.inCluster, on.it, editImageForm(on.inCluster, on.it))
}

func (s *Site) showImage(v *pages.Visit, status int, in inCluster, i image, edit pages.Form) error {
	log, _, err := v.CallText(v.API("clusters", in.Cluster.ID, "agent-images", i.ID, "log"), maxImageLog)
	if err != nil && core.KindOf(err) != core.NotFound {
		return err
	}
	return in.show(v, status, "image", "images", i.Name, struct {
		inCluster
		Image  image
		Log    string
		Edit   pages.Form
		Delete pages.Confirm
	}{in, i, log, edit, pages.Confirm{Summary: "Delete image", Warning: "Queues that use it must use another image first. This cannot be undone.",
		Form: pages.Form{ID: "delete", Action: in.At("agent-images", i.ID, "delete"), Submit: "Delete " + i.Name, Danger: true}}})
}

// maxImageLog is how much of the log of an image's build its page shows, in bytes.
const maxImageLog = 256 << 10

func (s *Site) changeImage(v *pages.Visit, on resource[image]) error {
	return v.Submit(editImageForm(on.inCluster, on.it), "PATCH", on.api, on.At("agent-images", on.it.ID), "Image saved. It is being built.", func(f pages.Form) error {
		return s.showImage(v, http.StatusUnprocessableEntity, on.inCluster, on.it, f)
	})
}

func (s *Site) deleteImage(v *pages.Visit, on resource[image]) error {
	return v.Delete(on.api, on.At("agent-images", on.it.ID), on.At("agent-images"), "Image deleted.")
}
