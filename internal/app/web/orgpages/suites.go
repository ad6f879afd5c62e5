package orgpages

import (
	"fmt"
	"net/http"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/suites"
	"stackyard/internal/domain/testresults"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// suiteRoutes returns the pages that the web_url fields of suites, runs and tests lead to.
func (s *Site) suiteRoutes() []route.Route {
	const all = "/organizations/{org}/analytics/suites"
	return []route.Route{
		s.Get(all, pages.MembersOnly(s.suites)),
		s.Get(all+"/{suite}", pages.MembersOnly(s.suite)),
		s.Get(all+"/{suite}/runs/{run}", pages.MembersOnly(s.testRun)),
		s.Get(all+"/{suite}/tests", pages.MembersOnly(s.tests)),
		s.Get(all+"/{suite}/tests/{test}", pages.MembersOnly(s.test)),
	}
}

// A suiteRow is a suite in a list.
type suiteRow struct {
	*suites.Suite
	Path string
}

// suiteList is a page of an organization's suites.
type suiteList struct {
	Org   *identity.Organization
	Rows  []suiteRow
	Pages []pages.PageLink
}

func (s *Site) suites(v *pages.Visit) error {
	page, err := v.Page()
	if err != nil {
		return err
	}
	found, total, err := s.Suites.List(v.Context(), suites.ViewerOf(v.Request), page)
	if err != nil {
		return err
	}
	l := suiteList{Org: v.Org, Pages: v.PageLinks(page, page.Number*page.Size < total, "Previous", "Next")}
	for _, suite := range found {
		l.Rows = append(l.Rows, suiteRow{suite, pages.SuitesPath(v.Org, suite.Slug)})
	}
	return v.Show(http.StatusOK, "suites", pages.View{Title: "Test suites of " + v.Org.Name, Section: "suites", Page: l})
}

// onSuite is what all pages of a suite show.
type onSuite struct {
	Org   *identity.Organization
	Suite *suites.Suite
	All   string // path of all suites
	Home  string // path of the suite
}

func (s *Site) loadSuite(v *pages.Visit) (onSuite, error) {
	suite, err := s.Suites.Load(v.Request)
	if err != nil {
		return onSuite{}, err
	}
	return onSuite{Org: v.Org, Suite: suite, All: pages.SuitesPath(v.Org), Home: pages.SuitesPath(v.Org, suite.Slug)}, nil
}

// loadSuitePage returns the suite, and which page of a list below it is requested.
func (s *Site) loadSuitePage(v *pages.Visit) (on onSuite, page route.Page, err error) {
	if on, err = s.loadSuite(v); err == nil {
		page, err = v.Page()
	}
	return on, page, err
}

// A runRow is a run in a list.
type runRow struct {
	testresults.Run
	Path   string
	Result testresults.RunResult
}

// A testRow is a test in a list, with what happened to it lately.
type testRow struct {
	testresults.Test
	measured
	Path string
}

// measured is what happened to a test within the days of a trend.
type measured struct {
	Sum   testresults.Metrics
	Chart *pages.Chart
}

// Percent returns the part of executions that passed.
func (m measured) Percent() string {
	reliability := m.Sum.Reliability()
	if reliability == nil {
		return "–"
	}
	return fmt.Sprintf("%.4g%%", *reliability*100)
}

// AverageText returns the average duration.
func (m measured) AverageText() string { return pages.Length(m.Sum.Average()) }

// measure returns the sum of days and a chart of them.
func (s *Site) measure(days []testresults.Day, height int) measured {
	return measured{testresults.SumOf(days), chartDays(days, s.Clock(), height)}
}

// testRow returns a test as lists show it.
func (s *Site) testRow(v *pages.Visit, on onSuite, t testresults.TrendTest) testRow {
	return testRow{t.Test, s.measure(t.Days, pages.SparkHeight), pages.SuitesPath(v.Org, on.Suite.Slug, "tests", t.ID)}
}

// suiteShown is the data of a suite's page.
type suiteShown struct {
	onSuite
	Branch string       // filter by branch
	Chart  *pages.Chart // of the runs
	Runs   []runRow
	Flaky  []testRow
	Pages  []pages.PageLink
}

// flakyShown is how many flaky tests a suite's page lists.
const flakyShown = 20

func (s *Site) suite(v *pages.Visit) error {
	on, page, err := s.loadSuitePage(v)
	if err != nil {
		return err
	}
	p := suiteShown{onSuite: on, Branch: v.FormQuery("branch")}
	runs, more, err := s.TestResults.Runs(v.Context(), on.Suite.ID, p.Branch, page)
	if err != nil {
		return err
	}
	for _, run := range runs {
		p.Runs = append(p.Runs, s.runRow(v, on, run))
	}
	flaky, err := s.TestResults.FlakyTests(v.Context(), on.Suite.ID, flakyShown)
	if err != nil {
		return err
	}
	for _, t := range flaky {
		p.Flaky = append(p.Flaky, s.testRow(v, on, t))
	}
	p.Chart = chartRuns(p.Runs)
	p.Pages = v.PageLinks(page, more, "Newer", "Older")
	return v.Show(http.StatusOK, "suite", pages.View{Title: on.Suite.Name, Section: "suites", Page: p})
}

func (s *Site) runRow(v *pages.Visit, on onSuite, run testresults.Run) runRow {
	return runRow{run, pages.SuitesPath(v.Org, on.Suite.Slug, "runs", run.ID), run.Result(s.Clock())}
}

// A failureRow is a failed execution in a list.
type failureRow struct {
	testresults.FailedExecution
	Path string // of the test
}

// runShown is the data of a run's page.
type runShown struct {
	onSuite
	runRow
	Failures []failureRow
	Pages    []pages.PageLink
}

func (s *Site) testRun(v *pages.Visit) error {
	on, page, err := s.loadSuitePage(v)
	if err != nil {
		return err
	}
	run, failed, err := s.TestResults.Run(v.Context(), on.Suite.ID, v.PathValue("run"), page)
	if err != nil {
		return err
	}
	p := runShown{onSuite: on, runRow: s.runRow(v, on, run), Pages: v.PageLinks(page, page.Number*page.Size < run.Counts.Failed, "Previous", "Next")}
	for _, f := range failed {
		p.Failures = append(p.Failures, failureRow{f, pages.SuitesPath(v.Org, on.Suite.Slug, "tests", f.TestID)})
	}
	return v.Show(http.StatusOK, "run", pages.View{Title: "Run of " + on.Suite.Name, Section: "suites", Page: p})
}

// An executionRow is an execution in a list, with its run.
type executionRow struct {
	testresults.PastExecution
	Path string // of the run
}

// Took returns how long the execution took.
func (e executionRow) Took() string { return pages.Length(e.Duration) }

// testShown is the data of a test's page.
type testShown struct {
	onSuite
	testresults.History
	measured
	Past []executionRow
}

// executionsShown is how many executions a test's page lists.
const executionsShown = 50

func (s *Site) test(v *pages.Visit) error {
	on, err := s.loadSuite(v)
	if err != nil {
		return err
	}
	history, err := s.TestResults.History(v.Context(), on.Suite.ID, v.PathValue("test"), executionsShown)
	if err != nil {
		return err
	}
	p := testShown{onSuite: on, History: history, measured: s.measure(history.Days, pages.ChartHeight)}
	for _, e := range history.Executions {
		p.Past = append(p.Past, executionRow{e, pages.SuitesPath(v.Org, on.Suite.Slug, "runs", e.Run.ID)})
	}
	return v.Show(http.StatusOK, "test", pages.View{Title: history.FullName(), Section: "suites", Page: &p})
}

// testSorts are the orders of the tests of a suite, the first unless one is chosen.
var testSorts = []struct {
	name, text string
	by         string // the metric; "": by scope and name
	descending bool
}{
	{"name", "Name", "", false},
	{"reliability", "Least reliable", "reliability", false},
	{"slowest", "Slowest on average", "duration_avg", true},
	{"longest", "Most time in all", "duration_sum", true},
}

// A sortOption is an order that can be chosen.
type sortOption struct {
	Name, Text string
	Chosen     bool
}

// testsShown is the data of the page of a suite's tests.
type testsShown struct {
	onSuite
	Search string
	Sorts  []sortOption
	Tests  []testRow
	Pages  []pages.PageLink
}

func (s *Site) tests(v *pages.Visit) error {
	on, page, err := s.loadSuitePage(v)
	if err != nil {
		return err
	}
	p, chosen := testsShown{onSuite: on, Search: v.FormQuery("search")}, testSorts[0]
	for _, sort := range testSorts {
		if sort.name == v.FormQuery("sort") {
			chosen = sort
		}
	}
	for _, sort := range testSorts {
		p.Sorts = append(p.Sorts, sortOption{sort.name, sort.text, sort.name == chosen.name})
	}
	found, more, err := s.TestResults.Tests(v.Context(), on.Suite.ID, p.Search, chosen.by, chosen.descending, page)
	if err != nil {
		return err
	}
	for _, t := range found {
		p.Tests = append(p.Tests, s.testRow(v, on, t))
	}
	p.Pages = v.PageLinks(page, more, "Previous", "Next")
	return v.Show(http.StatusOK, "tests", pages.View{Title: "Tests of " + on.Suite.Name, Section: "suites", Page: p})
}
