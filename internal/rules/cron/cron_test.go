package cron

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const layout = "2006-01-02 15:04"

// at reads a time in a zone.
func at(t testing.TB, text, zone string) time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	read, err := time.ParseInLocation(layout, text, loc)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func parse(t testing.TB, text string) *Line {
	t.Helper()
	l, err := Parse(text)
	if err != nil {
		t.Fatalf("%q %v", text, err)
	}
	return l
}

func TestNext_OfEveryFeature(t *testing.T) {
	// 2026-01-15 is a Thursday.
	for _, c := range []struct{ line, after, next string }{
		{"* * * * *", "2026-01-15 10:07", "2026-01-15 10:08, 10:09"},
		{"30 * * * *", "2026-01-15 10:07", "2026-01-15 10:30, 11:30"},
		{"30 * * * *", "2026-01-15 10:30", "2026-01-15 11:30, 12:30"},
		{"*/20 * * * *", "2026-01-15 10:07", "2026-01-15 10:20, 10:40, 11:00"},
		{"5/20 * * * *", "2026-01-15 10:07", "2026-01-15 10:25, 10:45, 11:05"},
		{"10-20/5 9 * * *", "2026-01-15 00:00", "2026-01-15 09:10, 09:15, 09:20, 2026-01-16 09:10"},
		{"0,15 9,17 * * *", "2026-01-15 09:05", "2026-01-15 09:15, 17:00, 17:15, 2026-01-16 09:00"},
		{"0 22-1 * * *", "2026-01-15 00:30", "2026-01-15 01:00, 22:00, 23:00, 2026-01-16 00:00"},
		{"@hourly", "2026-01-15 10:07", "2026-01-15 11:00, 12:00"},
		{"@daily", "2026-01-15 10:07", "2026-01-16 00:00, 2026-01-17 00:00"},
		{"@Midnight", "2026-01-15 10:07", "2026-01-16 00:00"},
		{"@weekly", "2026-01-15 10:07", "2026-01-18 00:00, 2026-01-25 00:00"},
		{"@monthly", "2026-01-15 10:07", "2026-02-01 00:00, 2026-03-01 00:00"},
		{"@yearly", "2026-01-15 10:07", "2027-01-01 00:00, 2028-01-01 00:00"},
		{"@annually", "2026-01-15 10:07", "2027-01-01 00:00"},
		{"0 9 * * MON-FRI", "2026-01-16 10:00", "2026-01-19 09:00, 2026-01-20 09:00"},
		{"0 9 * * fri-mon", "2026-01-15 10:00", "2026-01-16 09:00, 2026-01-17 09:00, 2026-01-18 09:00, 2026-01-19 09:00, 2026-01-23 09:00"},
		{"0 9 * * 0", "2026-01-15 10:00", "2026-01-18 09:00, 2026-01-25 09:00"},
		{"0 9 * * 7", "2026-01-15 10:00", "2026-01-18 09:00, 2026-01-25 09:00"},
		{"0 9 * * 5-7", "2026-01-15 10:00", "2026-01-16 09:00, 2026-01-17 09:00, 2026-01-18 09:00, 2026-01-23 09:00"},
		{"0 9 * * */2", "2026-01-15 10:00", "2026-01-17 09:00, 2026-01-18 09:00, 2026-01-20 09:00"},
		{"0 9 * * SUN,TUE", "2026-01-15 10:00", "2026-01-18 09:00, 2026-01-20 09:00"},
		{"0 9 1 JAN,Jul *", "2026-01-15 10:00", "2026-07-01 09:00, 2027-01-01 09:00"},
		{"0 9 1 nov-FEB *", "2026-01-15 10:00", "2026-02-01 09:00, 2026-11-01 09:00, 2026-12-01 09:00, 2027-01-01 09:00"},
		{"0 9 1 */6 *", "2026-01-15 10:00", "2026-07-01 09:00, 2027-01-01 09:00"},
		{"0 9 13 * FRI", "2026-01-15 10:00", "2026-01-16 09:00, 2026-01-23 09:00, 2026-01-30 09:00, 2026-02-06 09:00, 2026-02-13 09:00"},
		{"0 9 29 2 *", "2026-01-15 10:00", "2028-02-29 09:00, 2032-02-29 09:00"},
		{"0 9 31 * *", "2026-01-31 10:00", "2026-03-31 09:00, 2026-05-31 09:00"},
		{"0 9 L * *", "2026-01-31 10:00", "2026-02-28 09:00, 2026-03-31 09:00"},
		{"0 9 last 2 *", "2026-01-15 10:00", "2026-02-28 09:00, 2027-02-28 09:00, 2028-02-29 09:00"},
		{"0 9 -1 * *", "2026-01-31 10:00", "2026-02-28 09:00"},
		{"0 9 -3--1 2 *", "2026-01-15 10:00", "2026-02-26 09:00, 2026-02-27 09:00, 2026-02-28 09:00, 2027-02-26 09:00"},
		{"0 9 -2-L 2 *", "2026-01-15 10:00", "2026-02-27 09:00, 2026-02-28 09:00, 2027-02-27 09:00"},
		{"0 9 27-L 2 *", "2026-01-15 10:00", "2026-02-27 09:00, 2026-02-28 09:00, 2027-02-27 09:00"},
		{"0 9 -5/2 2 *", "2026-01-15 10:00", "2026-02-24 09:00, 2026-02-26 09:00, 2026-02-28 09:00"},
		{"0 9 1,L * *", "2026-01-15 10:00", "2026-01-31 09:00, 2026-02-01 09:00, 2026-02-28 09:00"},
		{"0 9 -31 * *", "2026-01-15 10:00", "2026-03-01 09:00, 2026-05-01 09:00"},
		{"0 9 */10 * *", "2026-01-15 10:00", "2026-01-21 09:00, 2026-01-31 09:00, 2026-02-01 09:00"},
		// Week 1 begins on Tuesday 2019-01-01.
		{"0 9 * * tue%2", "2018-12-31 10:00", "2019-01-08 09:00, 2019-01-22 09:00"},
		{"0 9 * * tue%2+1", "2018-12-31 10:00", "2019-01-01 09:00, 2019-01-15 09:00"},
		{"0 9 * * tue%2-1", "2018-12-31 10:00", "2019-01-01 09:00, 2019-01-15 09:00"},
		{"0 9 * * tue%4+3", "2018-12-31 10:00", "2019-01-15 09:00, 2019-02-12 09:00"},
		{"0 9 * * mon%2+1", "2018-12-31 10:00", "2019-01-07 09:00, 2019-01-21 09:00"},
		{"0 9 * * tue%2+1,tue%3", "2018-12-31 10:00", "2019-01-01 09:00, 2019-01-15 09:00, 2019-01-29 09:00, 2019-02-05 09:00"},
		{"0 9 * * *%2", "2018-12-31 10:00", "2019-01-08 09:00, 2019-01-09 09:00"},
		{"0 9 * * mon-wed%2", "2018-12-31 10:00", "2019-01-08 09:00, 2019-01-09 09:00, 2019-01-14 09:00, 2019-01-22 09:00"},
		{"0 9 * * mon%3", "2026-01-15 10:00", "2026-01-26 09:00, 2026-02-16 09:00"},
	} {
		l := parse(t, c.line)
		var want []string
		day := ""
		for _, text := range strings.Split(c.next, ", ") {
			if d, clock, ok := strings.Cut(text, " "); ok {
				day, text = d, clock
			}
			want = append(want, day+" "+text)
		}
		var got []string
		for _, run := range l.Upcoming(at(t, c.after, "UTC"), len(want)) {
			got = append(got, run.Format(layout))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s after %s: got %v, want %v", c.line, c.after, got, want)
		}
	}
}

func TestNext_InTimeZones(t *testing.T) {
	for _, c := range []struct{ line, after, next string }{ // in UTC
		{"0 9 * * * Europe/Berlin", "2026-01-15 00:00", "2026-01-15 08:00"},
		{"0 9 * * * Europe/Berlin", "2026-07-15 00:00", "2026-07-15 07:00"},
		{"0 9 * * * +05:30", "2026-01-15 00:00", "2026-01-15 03:30"},
		{"0 9 * * * -08:00", "2026-01-15 00:00", "2026-01-15 17:00"},
		{"@daily America/New_York", "2026-01-15 00:00", "2026-01-15 05:00"},
		{"0 0 1 * * Asia/Tokyo", "2026-01-15 00:00", "2026-01-31 15:00"},
		{"0 0 * * MON Pacific/Auckland", "2026-01-15 00:00", "2026-01-18 11:00"},
		{"15 * * * * Asia/Kathmandu", "2026-01-15 00:05", "2026-01-15 00:30"}, // UTC+05:45
		{"0 9 * * * UTC", "2026-01-15 00:00", "2026-01-15 09:00"},
	} {
		if got := parse(t, c.line).Next(at(t, c.after, "UTC")).Format(layout); got != c.next {
			t.Errorf("%s after %s: got %s, want %s", c.line, c.after, got, c.next)
		}
	}
}

// In Berlin, 2026-03-29 02:00 to 03:00 is skipped (at 01:00 UTC), and 2026-10-25 02:00 to 03:00 is repeated (at 01:00
// UTC). In Lord Howe the change is half an hour, in Havana it is at midnight.
func TestNext_WhenClocksChange(t *testing.T) {
	for _, c := range []struct{ line, after, next string }{ // in UTC
		{"30 2 * * * Europe/Berlin", "2026-03-28 12:00", "2026-03-29 01:00, 2026-03-30 00:30"},
		{"0,30 2 * * * Europe/Berlin", "2026-03-28 12:00", "2026-03-29 01:00, 2026-03-30 00:00, 2026-03-30 00:30"},
		{"0,30 2,3 * * * Europe/Berlin", "2026-03-28 12:00", "2026-03-29 01:00, 2026-03-29 01:30, 2026-03-30 00:00"},
		{"30 * * * * Europe/Berlin", "2026-03-28 23:45", "2026-03-29 00:30, 2026-03-29 01:30, 2026-03-29 02:30"},
		{"30 2 * * * Europe/Berlin", "2026-10-24 12:00", "2026-10-25 00:30, 2026-10-26 01:30"},
		{"30 2,3 * * * Europe/Berlin", "2026-10-24 12:00", "2026-10-25 00:30, 2026-10-25 02:30"},
		{"30 * * * * Europe/Berlin", "2026-10-24 23:45", "2026-10-25 00:30, 2026-10-25 01:30, 2026-10-25 02:30"},
		{"30 2 * * * Europe/Berlin", "2026-10-25 00:45", "2026-10-26 01:30"},
		{"15 2 * * * Australia/Lord_Howe", "2026-10-02 16:00", "2026-10-03 15:30, 2026-10-04 15:15"},
		{"45 1 * * * Australia/Lord_Howe", "2026-04-03 16:00", "2026-04-04 14:45, 2026-04-05 15:15"},
		{"30 0 * * * America/Havana", "2026-03-07 12:00", "2026-03-08 05:00, 2026-03-09 04:30"},
		{"@daily America/Havana", "2026-10-31 12:00", "2026-11-01 04:00, 2026-11-02 05:00"},
		{"@hourly America/Havana", "2026-11-01 03:30", "2026-11-01 04:00, 2026-11-01 05:00, 2026-11-01 06:00"},
		{"0 9 * * * Pacific/Apia", "2011-12-29 20:00", "2011-12-30 10:00, 2011-12-30 19:00"}, // 2011-12-30 is skipped
	} {
		want := strings.Split(c.next, ", ")
		var got []string
		for _, run := range parse(t, c.line).Upcoming(at(t, c.after, "UTC"), len(want)) {
			got = append(got, run.Format(layout))
		}
		if strings.Join(got, ", ") != c.next {
			t.Errorf("%s after %s: got %v, want %v", c.line, c.after, got, want)
		}
	}
}

func TestNext_OfWhatNeverRunsIsZero(t *testing.T) {
	for _, line := range []string{"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 -31 2 *"} {
		if next := parse(t, line).Next(at(t, "2026-01-15 00:00", "UTC")); !next.IsZero() {
			t.Errorf("%s runs at %v", line, next)
		}
	}
}

func TestParse_ExplainsProblems(t *testing.T) {
	for line, want := range map[string]string{
		"":                        "is required",
		"  ":                      "is required",
		"* * * *":                 "must have five fields",
		"0 0 0 * * * *":           "it has 7",
		"@reboot":                 `unknown word "@reboot"`,
		"@every 5m":               "unknown word",
		"60 * * * *":              `has the minute "60"; it can be a number from 0 to 59`,
		"* 24 * * *":              `has the hour "24"; it can be a number from 0 to 23`,
		"* * 0 * *":               `has the day of the month "0"`,
		"* * 32 * *":              "-1 (the last day)",
		"* * -32 * *":             "from 1 to 31",
		"* * * 13 *":              `has the month "13"; it can be a number from 1 to 12 or a name like FEB`,
		"* * * 0 *":               "from 1 to 12",
		"* * * * 8":               "from 0 to 7 or a name like MON",
		"* * * * MONDAY":          `has the weekday "MONDAY"`,
		"* * * * ?":               `has the weekday "?"`,
		"* * * * MON#1":           `has the weekday "MON#1"`,
		"*/0 * * * *":             "a step is a number from 1 to 59",
		"*/x * * * *":             "a step is a number",
		"*/ * * * *":              "a step is a number",
		"1, * * * *":              `has the minute ""`,
		"1- * * * *":              `has the minute "1-"`,
		"-1 * * * *":              `has the minute "-1"`,
		"1-2-3 * * * *":           `has the minute "1-2-3"`,
		"* * 5-3 * *":             "ends before it begins",
		"* * -1--3 * *":           "ends before it begins",
		"5%2 * * * *":             "only weekdays can have %",
		"* * 5%2 * *":             "only weekdays can have %",
		"* * * * mon%":            "a number of weeks must follow %",
		"* * * * mon%0":           "from 1 to 520 must follow %",
		"* * * * mon%2+":          "an offset is a number",
		"* * * * mon%2+x":         "an offset is a number",
		"0~30 * * * *":            `cannot contain "~"`,
		"* * * * * Mars/Phobos":   `unknown time zone "Mars/Phobos"`,
		"* * * * * Local":         "unknown time zone",
		"* * * * * ../etc/passwd": "unknown time zone",
		"* * * * * +15:00":        "at most 14 hours",
		"* * * * * +2":            "offset like +02:00",
		"0 0 * * * *":             "there is no field for seconds",
		"99999999999 * * * *":     "from 0 to 59",
		"١ * * * *":               "from 0 to 59",
		strings.Repeat("1", 256):  "at most 255",
	} {
		if _, err := Parse(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", line, err, want)
		}
	}
}

// TestProperty_NextIsTheFirstMatch compares Next with a search through every minute.
func TestProperty_NextIsTheFirstMatch(t *testing.T) {
	zones := []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "+05:45"}
	rapid.Check(t, func(t *rapid.T) {
		pick := func(name string, options ...string) string { return rapid.SampledFrom(options).Draw(t, name) }
		text := strings.Join([]string{
			pick("minute", "*", "0", "*/7", "5,35", "58-3"),
			pick("hour", "*", "2", "0", "1-3", "*/5", "23-1"),
			pick("day", "*", "*", "L", "1", "-7--1", "*/3"),
			pick("month", "*", "3,10,11", "*/2"),
			pick("weekday", "*", "*", "SUN", "MON-FRI", "sun%2", "*%3+1"),
			pick("zone", zones...),
		}, " ")
		l, err := Parse(text)
		if err != nil {
			t.Fatalf("%q %v", text, err)
		}
		from := time.Date(2026, time.Month(rapid.IntRange(1, 12).Draw(t, "in")), rapid.IntRange(1, 31).Draw(t, "on"), 0, rapid.IntRange(0, 1439).Draw(t, "minutes"), 7, 0, time.UTC)
		next := l.Next(from)
		if !next.After(from) {
			t.Fatalf("%s: the next run after %v is %v", text, from, next)
		}
		const most = 4 * 24 * 60
		first := from.Truncate(time.Minute).Add(time.Minute)
		for i := range most {
			at := first.Add(time.Duration(i) * time.Minute)
			if l.runsAt(at) != at.Equal(next) {
				t.Fatalf("%s after %v: runs at %v: %v, but the next run is %v", text, from, at, l.runsAt(at), next)
			}
			if at.Equal(next) {
				return
			}
		}
		if !next.After(first.Add((most - 1) * time.Minute)) {
			t.Fatalf("%s after %v: %v is not a whole minute", text, from, next)
		}
	})
}

// runsAt reports whether the line runs at a minute, by what clocks show at it and in the hours around it.
func (l *Line) runsAt(at time.Time) bool {
	shows := func(at time.Time) time.Time { return wallOf(at.In(l.zone)) }
	matches := func(wall time.Time) bool {
		return l.onDay(wall.Truncate(24*time.Hour)) && l.hours.has(wall.Hour()) && l.minutes.has(wall.Minute())
	}
	wall := shows(at)
	if l.hours == everyHour {
		return matches(wall)
	}
	repeated := false
	for back := time.Minute; back <= 2*time.Hour; back += time.Minute {
		repeated = repeated || shows(at.Add(-back)).Equal(wall)
	}
	if matches(wall) && !repeated {
		return true
	}
	// Clocks may have jumped to this minute, over some that match.
	for skipped := shows(at.Add(-time.Minute)).Add(time.Minute); skipped.Before(wall); skipped = skipped.Add(time.Minute) {
		if matches(skipped) {
			return true
		}
	}
	return false
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"@daily Europe/Berlin", "*/5 9-17 -3-L JAN,JUL MON%2+1 +05:30", "0 0 30 2 *", "5/2 22-1 * * sun%3-1", "~ * * * *"} {
		f.Add(line)
	}
	from := time.Date(2026, 3, 28, 12, 0, 30, 0, time.UTC)
	f.Fuzz(func(t *testing.T, line string) {
		l, err := Parse(line)
		if err != nil {
			return
		}
		last := from
		for _, run := range l.Upcoming(from, 5) {
			if !run.After(last) {
				t.Fatalf("%q runs at %v after %v", line, run, last)
			}
			last = run
		}
	})
}
