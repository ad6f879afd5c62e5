package pipelines_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

func TestArchive_IsUndoneByUnarchive(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		before := ada.Get(hello).At("")
		archived := ada.Post(hello+"/archive", nil).Want(http.StatusOK)
		wantEqual(t, "archived_at", archived.At("archived_at"), s.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
		wantEqual(t, "read", ada.Get(hello).Want(http.StatusOK).At(""), archived.At(""))
		ada.Post(hello+"/archive", nil).WantMessage(http.StatusUnprocessableEntity, "The pipeline could not be archived: it is archived already")
		wantEqual(t, "unarchived", ada.Post(hello+"/unarchive", nil).Want(http.StatusOK).At(""), before)
		ada.Post(hello+"/unarchive", nil).WantMessage(http.StatusUnprocessableEntity, "The pipeline could not be unarchived: it is not archived")
		ada.Post(path+"/nothing/archive", nil).Want(http.StatusNotFound)
	})
}

func TestDelete_RemovesThePipelineForGood(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Post(path, yaml("Team Thing", map[string]any{"teams": []string{servertest.AcmeTeamID}})).Want(http.StatusCreated)
		ada.Post(path+"/team-thing/archive", nil).Want(http.StatusOK)
		ada.Delete(path + "/team-thing").Want(http.StatusNoContent)
		ada.Get(path + "/team-thing").Want(http.StatusNotFound)
		ada.Delete(path + "/team-thing").Want(http.StatusNotFound)
		ada.Post(path, yaml("Team Thing", nil)).Want(http.StatusCreated)
	})
}
