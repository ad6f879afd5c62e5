package jobapi

import (
	"net/http"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Service) metaDataRoutes() []route.Route {
	routes := []route.Route{
		{
			Path: agents.JobPath + "/data/set", Summary: "Set meta-data of the job's build",
			Handler: route.OnBody(s.agents.LoadJob, s.postMetaData),
		},
		{
			Path: agents.JobPath + "/data/set-batch", Summary: "Set several meta-data values of the job's build",
			Description: "Sets all values or none.",
			Handler:     route.OnBody(s.agents.LoadJob, s.postMetaDataBatch),
		},
	}
	routes = append(routes, s.metaDataReads(agents.JobPath, s.agents.LoadJob)...)
	routes = append(routes, s.metaDataReads(agents.BuildPath, s.agents.LoadJobOfBuild)...)
	for i := range routes {
		routes[i].Method, routes[i].Tag, routes[i].Auth = http.MethodPost, agents.JobTag, route.Job
	}
	return routes
}

// metaDataReads returns the read routes below the path of a job or of its build.
func (s *Service) metaDataReads(path string, load func(*route.Request) (builds.Holding, error)) []route.Route {
	return []route.Route{
		{Path: path + "/data/get", Summary: "Get meta-data of the job's build", Handler: route.OnBody(load, s.getMetaData)},
		{Path: path + "/data/exists", Summary: "Check whether the job's build has a meta-data key", Handler: route.OnBody(load, s.metaDataExists)},
		{Path: path + "/data/keys", Summary: "List the meta-data keys of the job's build", Handler: route.On(load, s.metaDataKeys)},
	}
}

type metaDataKey struct {
	Key string `json:"key"`
}

type metaDataSet struct {
	Key   string `json:"key" doc:"Up to 255 characters."`
	Value string `json:"value" doc:"Up to 100,000 bytes."`
}

type metaDataSetBatch struct {
	Items []metaDataSet `json:"items"`
}

func (s *Service) postMetaData(r *route.Request, h builds.Holding, body metaDataSet) (agents.EmptyView, error) {
	return s.setMetaData(r, h, body)
}

func (s *Service) postMetaDataBatch(r *route.Request, h builds.Holding, body metaDataSetBatch) (agents.EmptyView, error) {
	return s.setMetaData(r, h, body.Items...)
}

func (s *Service) setMetaData(r *route.Request, h builds.Holding, items ...metaDataSet) (agents.EmptyView, error) {
	data := make([]metadata.Entry, len(items))
	for i, item := range items {
		data[i] = metadata.Entry(item)
	}
	return agents.EmptyView{}, s.builds.SetMetaData(r.Context(), r.Org.ID, h.BuildID, data)
}

type metaDatumView struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (s *Service) getMetaData(r *route.Request, h builds.Holding, body metaDataKey) (metaDatumView, error) {
	value, ok, err := s.builds.MetaData(r.Context(), r.Org.ID, h.BuildID, body.Key)
	if err == nil && !ok {
		err = core.Errorf(core.NotFound, "No meta-data has been set under the key %q", body.Key)
	}
	return metaDatumView{Key: body.Key, Value: value}, err
}

type metaDataExistsView struct {
	Exists bool `json:"exists"`
}

func (s *Service) metaDataExists(r *route.Request, h builds.Holding, body metaDataKey) (metaDataExistsView, error) {
	_, ok, err := s.builds.MetaData(r.Context(), r.Org.ID, h.BuildID, body.Key)
	return metaDataExistsView{ok}, err
}

func (s *Service) metaDataKeys(r *route.Request, h builds.Holding) ([]string, error) {
	return s.builds.MetaDataKeys(r.Context(), r.Org.ID, h.BuildID)
}
