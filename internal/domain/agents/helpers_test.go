package agents_test

import "stackyard/internal/app/server/servertest"

type (
	fields   = map[string]any
	response = servertest.Response
)
