package testresults

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestDays_AreEncodedAndDecoded(t *testing.T) {
	all := []dayCount{
		{id: uuid.MustParse(TestID("s", "", "a")), Metrics: Metrics{Counts: Counts{Passed: 1, Duration: 1500 * time.Microsecond}, Shortest: 1500 * time.Microsecond, Longest: 1500 * time.Microsecond}},
		{id: uuid.MustParse(TestID("s", "", "b")), Metrics: Metrics{Counts: Counts{Passed: 300, Failed: 2, Skipped: 3, Pending: 4, Unknown: 5, Duration: time.Hour}, Shortest: 0, Longest: time.Minute, Flaky: 1}},
		{id: uuid.MustParse(TestID("s", "", "c")), Metrics: Metrics{Flaky: 7}},
	}
	var got []dayCount
	if err := decodeDays(encodeDays(all), func(c *dayCount) { got = append(got, *c) }); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%v: %+v\nwant %+v", err, got, all)
	}
}

func FuzzDecodeDays(f *testing.F) {
	f.Add(encodeDays([]dayCount{{Metrics: Metrics{Counts: Counts{Passed: 2, Duration: time.Second}, Longest: time.Second, Flaky: 1}}}))
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		if err := decodeDays(text, func(*dayCount) { n++ }); n*17 > len(text) {
			t.Errorf("%d counts in %d bytes, error %v", n, len(text), err)
		}
	})
}

func TestDays_CountEachChangeOnceWhenFoldedAtTheSameTime(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		results, err := d.Results(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := &Service{results: results}
		const suite, uploads = "suite", 20
		var all sync.WaitGroup
		for i := range uploads {
			all.Go(func() {
				counts := []dayCount{{id: uuid.MustParse(TestID(suite, "", "a")), Metrics: Metrics{
					Counts: Counts{Passed: 1, Skipped: i % 2, Duration: time.Duration(i) * time.Millisecond}, Shortest: time.Duration(i) * time.Millisecond, Longest: time.Duration(i) * time.Millisecond, Flaky: 1,
				}}}
				err := results.Write(t.Context(), func(q *db.Q) error {
					_, err := noteDays(q, suite, int64(i%3), counts)
					return err
				})
				if err == nil {
					err = s.foldDays(t.Context(), suite)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var found string
		err = results.Read(t.Context(), func(q *db.Q) error {
			var passed, skipped, flaky, sum, shortest, longest, left int
			err := q.QueryRow(`
				SELECT SUM(passed), SUM(skipped), SUM(flaky), CAST(SUM(duration_sum) AS BIGINT), MIN(duration_min), MAX(duration_max), (SELECT COUNT(*) FROM test_day_changes)
				FROM test_days WHERE suite_id = $1`, suite).Scan(&passed, &skipped, &flaky, &sum, &shortest, &longest, &left)
			found = fmt.Sprint(passed, skipped, flaky, sum, shortest, longest, left)
			return err
		})
		if want := "20 10 20 190000 0 19000 0"; err != nil || found != want {
			t.Errorf("%v: the days have %s, want %s", err, found, want)
		}
	})
}
