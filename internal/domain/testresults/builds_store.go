package testresults

import (
	"fmt"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/testreport"
)

// A buildFilter says which tests of a build are listed, in which order, and with what.
type buildFilter struct {
	testFilter
	having     string // a condition on the executions of a test
	by         string
	descending bool
	latestFail bool
	executions bool
}

// resultConditions are the values of the parameter result, as conditions on the executions of a test.
var resultConditions = map[string]string{
	"":        "TRUE",
	"failed":  "SUM(CASE WHEN e.result = 'failed' THEN 1 ELSE 0 END) > 0",
	"passed":  "SUM(CASE WHEN e.result = 'passed' THEN 1 ELSE 0 END) > 0",
	"^failed": "SUM(CASE WHEN e.result <> 'failed' THEN 1 ELSE 0 END) = 0",
	"^passed": "SUM(CASE WHEN e.result <> 'passed' THEN 1 ELSE 0 END) = 0",
}

func buildFilterOf(r *route.Request) (f buildFilter, err error) {
	if f.testFilter, err = labelsOf(r); err != nil {
		return f, err
	}
	var ok bool
	if f.having, ok = resultConditions[r.FormQuery("result")]; !ok {
		return f, core.Errorf(core.BadRequest, "result must be failed, passed, ^failed or ^passed")
	}
	for name := range strings.SplitSeq(r.FormQuery("include"), ",") {
		switch strings.TrimSpace(name) {
		case "":
		case "latest_fail":
			f.latestFail = true
		case "executions":
			f.executions = true
		default:
			return f, core.Errorf(core.BadRequest, "include must be latest_fail or executions")
		}
	}
	f.by, f.descending, err = sortOf(r, "duration_avg")
	return f, err
}

// A buildTest is a test with what happened to it in a build.
type buildTest struct {
	Test
	SuiteID string
	Metrics Metrics
}

// buildOrders are metricOrders over executions e.
var buildOrders = map[string]string{
	"duration_avg": `SUM(e.duration) / COUNT(*)`,
	"duration_sum": `SUM(e.duration)`,
	"duration_min": `MIN(e.duration)`,
	"duration_max": `MAX(e.duration)`,
	"reliability": `CASE WHEN SUM(CASE WHEN e.result IN ('passed', 'failed') THEN 1 ELSE 0 END) > 0
		THEN SUM(CASE WHEN e.result = 'passed' THEN 1 ELSE 0 END) * 1000000 / SUM(CASE WHEN e.result IN ('passed', 'failed') THEN 1 ELSE 0 END) END`,
}

// buildTests returns tests that were executed in runs.
func buildTests(q *db.Q, runs []int64, f buildFilter, limit, offset int) ([]buildTest, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	var counts []string
	for _, result := range testreport.Results {
		counts = append(counts, fmt.Sprintf("SUM(CASE WHEN e.result = '%s' THEN 1 ELSE 0 END)", result))
	}
	var s db.Statement
	s.And("e.run IN (" + integers(runs) + ")")
	f.restrictKind(&s)
	order := buildOrders[f.by]
	if f.descending {
		order += " DESC"
	}
	tests, err := db.All(q, func(scan db.Scan) (b buildTest, err error) {
		err = scan(append(append(b.Test.dest(), &b.SuiteID), b.Metrics.dest()...)...)
		b.noteFlaky()
		return b, err
	}, fmt.Sprintf(`
		SELECT %s, t.suite_id, %s, SUM(e.duration), MIN(e.duration), MAX(e.duration)
		FROM test_executions e
		JOIN tests t ON t.id = e.test_id
		%s
		GROUP BY %s, t.suite_id
		HAVING %s
		ORDER BY %s NULLS LAST, t.id
		LIMIT %s OFFSET %s`, testColumns, strings.Join(counts, ", "), s.Clause(), testColumns, f.having, order, s.Arg(limit), s.Arg(offset)), s.Args()...)
	return withLabels(q, tests, func(b *buildTest) *Test { return &b.Test }, err)
}

// include returns the executions of tests that a request wants beside them, the newest first.
func include(q *db.Q, runs []int64, tests []buildTest, f buildFilter) (map[string][]Execution, error) {
	byTest := make(map[string][]Execution)
	if len(tests) == 0 || !f.latestFail && !f.executions {
		return byTest, nil
	}
	ids := make([]string, len(tests))
	for i, t := range tests {
		ids[i] = t.ID
	}
	condition := "TRUE"
	if !f.executions {
		condition = "e.result = 'failed'"
	}
	found, err := testExecutions(q, runs, ids, maxIncluded, condition)
	for _, e := range found {
		byTest[e.TestID] = append(byTest[e.TestID], e)
	}
	return byTest, err
}
