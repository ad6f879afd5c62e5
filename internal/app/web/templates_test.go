package web_test

import (
	"log/slog"
	"testing"

	"stackyard/internal/app/web"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestTemplates_AreValid(t *testing.T) {
	site := web.New(web.Config{
		Base: pages.Config{Public: "http://ci.test"},
		Bus:  bus.New(dbtest.New(t, db.SQLite), slog.New(slog.DiscardHandler)),
	})
	site.ParseTemplates()
}
